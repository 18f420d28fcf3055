package main

import (
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"nstance/test/go_peers/internal/lines"
)

// Supervise runs this program again and again, as a service manager with `Restart=always` does, until it
// is told to stop. It answers with the exit status.
func Supervise() int {
	runtime.LockOSThread() // The kernel ends the child with the thread that started it.
	stop := make(chan os.Signal, 2)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	notice := make(chan os.Signal, 1)
	signal.Notify(notice, syscall.SIGUSR1)
	for {
		command := exec.Command("/proc/self/exe")
		command.Stdout, command.Stderr = os.Stdout, os.Stderr
		command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := command.Start(); err != nil {
			lines.Say("exiting", lines.Fields{"error": err.Error()})
			return 1
		}
		ended := make(chan error, 1)
		go func() { ended <- command.Wait() }()
		running := true
		for running {
			select {
			case <-notice:
				command.Process.Signal(syscall.SIGUSR1)
			case <-stop:
				command.Process.Signal(syscall.SIGTERM)
				<-ended
				return 0
			case <-ended:
				running = false
			}
		}
		lines.Say("restarting", lines.Fields{"exit_code": command.ProcessState.ExitCode()})
		select {
		case <-stop:
			return 0
		case <-time.After(time.Second):
		}
	}
}
