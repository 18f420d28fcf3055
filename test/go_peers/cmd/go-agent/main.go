// go-agent behaves on the wire as the agent of the Go implementation does, as far as our specifications
// describe it: no proof of possession, no features, no renewal, no additions of ours in its reports, and
// it ends on any error of its key or file stream, so that its service manager starts it again.
//
//	go-agent               runs once; exit status 0 stopped on request, 1 any error
//	go-agent --supervise   is its own service manager: starts it again a second after it ended
//	go-agent --version
//
// The environment is that of the agent (NSTANCE_SERVER_REGISTRATION_ADDR and so on). What it does is told
// as JSON lines on standard output. SIGUSR1 makes it report a termination notice from the next report on.
package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"nstance/test/go_peers/internal/identity"
	"nstance/test/go_peers/internal/lines"
	"nstance/test/go_peers/internal/pb"
)

const version = "go-agent-1"

func main() {
	supervise := false
	for _, argument := range os.Args[1:] {
		switch argument {
		case "--supervise":
			supervise = true
		case "--version":
			fmt.Println(version)
			return
		case "--debug", "-v":
		default:
			fmt.Fprintf(os.Stderr, "go-agent: unknown argument %q\n", argument)
			os.Exit(2)
		}
	}
	if supervise {
		os.Exit(Supervise())
	}
	settings, problems := ReadSettings()
	if len(problems) > 0 {
		fmt.Fprintln(os.Stderr, strings.Join(problems, "\n"))
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := run(ctx, settings)
	if ctx.Err() != nil {
		lines.Say("stopped", nil)
		return
	}
	lines.Fail("exiting", err, nil)
	os.Exit(1)
}

func run(ctx context.Context, settings *Settings) error {
	lines.Say("started", lines.Fields{"instance_id": settings.InstanceID, "pid": os.Getpid()})
	certificate, err := haveCertificate(ctx, settings)
	if err != nil {
		return err
	}
	connection, err := settings.Identity.Dial(settings.AgentAddr, certificate, 20*time.Second)
	if err != nil {
		return err
	}
	defer connection.Close()
	agent := &Agent{settings: settings, client: pb.NewAgentServiceClient(connection)}
	return agent.Run(ctx)
}

// haveCertificate loads the stored certificate, or registers to get one.
func haveCertificate(ctx context.Context, settings *Settings) (*tls.Certificate, error) {
	if _, err := settings.Identity.Roots(); err != nil {
		return nil, err
	}
	public, err := settings.Identity.EnsureKeyPair()
	if err != nil {
		return nil, err
	}
	if certificate, ok := settings.Identity.Certificate(); ok {
		lines.Say("identity", lines.Fields{"from": "file", "serial": certificate.Leaf.SerialNumber.String()})
		return &certificate, nil
	}
	if err := Register(ctx, settings, public); err != nil {
		return nil, err
	}
	certificate, ok := settings.Identity.Certificate()
	if !ok {
		return nil, fmt.Errorf("the certificate that the server gave does not fit the key")
	}
	return &certificate, nil
}

// mustBeFolder tells what is wrong with a folder of the environment, or nothing.
func mustBeFolder(name, path string) string {
	probe := identity.WriteFile(path, ".nstance-probe", nil, 0o600)
	if probe != nil {
		return fmt.Sprintf("%s: %v", name, probe)
	}
	os.Remove(path + "/.nstance-probe")
	return ""
}
