// go-operator is an operator written with grpc-go: it joins with an operator token, asks, changes and
// watches, and tells what it does as JSON lines on standard output.
//
//	go-operator FLAGS register                 token for a certificate, in the identity folder
//	go-operator FLAGS renew                    same key, new certificate
//	go-operator FLAGS groups | config | refresh
//	go-operator FLAGS upsert KEY [-template T] [-size N] [-instance-type T] [-subnet-pool P] [-var K=V]...
//	go-operator FLAGS delete-group KEY
//	go-operator FLAGS create GROUP [-id ID] [-instance-type T] [-subnet-pool P] [-var K=V]...
//	go-operator FLAGS delete ID | status ID | ack ID
//	go-operator FLAGS watch [-ack] [groups] [instances] [errors]
//
// A watch goes on until it is told to stop; a stream that ends is opened again. With -ack every drain is
// acknowledged at once. Exit status 0 done, 1 refused (the last line has the gRPC code), 2 wrong use.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"google.golang.org/grpc"

	"nstance/test/go_peers/internal/identity"
	"nstance/test/go_peers/internal/lines"
)

type settings struct {
	folder       identity.Folder
	registration string
	operator     string
	tokenFile    string
	timeout      time.Duration
}

var errUsage = errors.New("wrong use; see the head of go-operator's main.go")

func main() {
	set := &settings{folder: identity.Folder{Mode: 0o600}}
	flags := flag.NewFlagSet("go-operator", flag.ExitOnError)
	flags.StringVar(&set.folder.Path, "dir", "", "identity folder; holds ca.crt")
	flags.StringVar(&set.registration, "registration", "", "host:port of the registration service")
	flags.StringVar(&set.operator, "operator", "", "host:port of the operator service")
	flags.StringVar(&set.tokenFile, "token", "", "file with the operator token")
	flags.DurationVar(&set.timeout, "timeout", 30*time.Second, "for one call")
	flags.Parse(os.Args[1:])
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := errUsage
	if flags.NArg() > 0 && set.folder.Path != "" {
		err = run(ctx, set, flags.Arg(0), flags.Args()[1:])
	}
	switch {
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	case ctx.Err() != nil:
		lines.Say("stopped", nil)
	case err != nil:
		lines.Fail("failed", err, lines.Fields{"command": flags.Arg(0)})
		os.Exit(1)
	}
}

func run(ctx context.Context, set *settings, command string, rest []string) error {
	if command == "register" {
		return register(ctx, set)
	}
	connection, err := set.dial()
	if err != nil {
		return err
	}
	defer connection.Close()
	if command == "watch" {
		return watch(ctx, connection, rest)
	}
	known, ok := commands[command]
	if !ok {
		return errUsage
	}
	limited, cancel := context.WithTimeout(ctx, set.timeout)
	defer cancel()
	return known(limited, connection, set, rest)
}

// dial connects as the operator that the folder holds. An older server closes connections that ping more
// often than every five minutes.
func (s *settings) dial() (*grpc.ClientConn, error) {
	certificate, ok := s.folder.Certificate()
	if !ok {
		return nil, errors.New("no usable certificate: register first")
	}
	return s.folder.Dial(s.operator, &certificate, 300*time.Second)
}
