package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"nstance/test/go_peers/internal/lines"
	"nstance/test/go_peers/internal/pb"
)

// Agent is one process's three streams.
type Agent struct {
	settings    *Settings
	client      pb.AgentServiceClient
	count       int64
	terminating atomic.Bool
}

// Run ends with the first error of the key or the file stream. The health stream is opened again.
func (a *Agent) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	notices := make(chan os.Signal, 1)
	signal.Notify(notices, syscall.SIGUSR1)
	defer signal.Stop(notices)
	go func() {
		for range notices {
			a.terminating.Store(true)
		}
	}()
	ended := make(chan error, 3)
	go func() { ended <- a.keys(ctx) }()
	go func() { ended <- a.files(ctx) }()
	go func() { ended <- a.health(ctx) }()
	return <-ended
}

// sayEnd tells of the end of a stream, and what ends the agent.
func sayEnd(stream string, err error) error {
	lines.Fail("stream-ended", err, lines.Fields{"stream": stream})
	return fmt.Errorf("%s stream: %w", stream, err)
}

func (a *Agent) keys(ctx context.Context) error {
	stream, err := a.client.ReceiveKeyRequests(ctx, &emptypb.Empty{})
	if err != nil {
		return sayEnd("keys", err)
	}
	lines.Say("stream-opened", lines.Fields{"stream": "keys"})
	for {
		request, err := stream.Recv()
		if err != nil {
			return sayEnd("keys", err)
		}
		lines.Say("keys-requested", lines.Fields{"names": request.KeyNames})
		if err := a.submitKeys(ctx, request.KeyNames); err != nil {
			return sayEnd("keys", err)
		}
	}
}

func (a *Agent) submitKeys(ctx context.Context, names []string) error {
	request := &pb.PublicKeysRequest{InstanceId: a.settings.InstanceID}
	for _, name := range names {
		key, err := PublicKeyFor(a.settings.Keys, name)
		if err != nil {
			return err
		}
		request.Keys = append(request.Keys, &pb.PublicKeySubmission{Filename: name, PublicKeyPem: key})
	}
	limited, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if _, err := a.client.SubmitPublicKeys(limited, request); err != nil {
		return err
	}
	lines.Say("keys-submitted", lines.Fields{"names": names})
	return nil
}

// files opens the stream again after a clean end; any error ends the agent.
func (a *Agent) files(ctx context.Context) error {
	for {
		err := a.fileStream(ctx)
		if !errors.Is(err, io.EOF) {
			return sayEnd("files", err)
		}
		lines.Say("stream-ended", lines.Fields{"stream": "files", "code": codes.OK.String()})
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
}

func (a *Agent) fileStream(ctx context.Context) error {
	stream, err := a.client.ReceiveFiles(ctx, &emptypb.Empty{})
	if err != nil {
		return err
	}
	lines.Say("stream-opened", lines.Fields{"stream": "files"})
	patch := &Patch{}
	for {
		transfer, err := stream.Recv()
		if err != nil {
			return err
		}
		committed, err := patch.Take(transfer)
		if err != nil {
			return err
		}
		if !committed {
			continue
		}
		names, err := patch.Apply(a.settings)
		if err != nil {
			lines.Say("patch-refused", lines.Fields{"config_hash": transfer.ConfigHash, "error": err.Error()})
		} else {
			lines.Say("patch-applied", lines.Fields{"config_hash": transfer.ConfigHash, "files": names})
		}
		patch = &Patch{}
	}
}

// health opens its stream again and again; it never ends the agent.
func (a *Agent) health(ctx context.Context) error {
	if a.settings.ReportInterval == 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	wait := time.Second
	for {
		began := time.Now()
		err := a.healthStream(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		lines.Fail("stream-ended", err, lines.Fields{"stream": "health"})
		if time.Since(began) > 30*time.Second {
			wait = time.Second
		}
		if err := pause(ctx, wait); err != nil {
			return err
		}
		wait = min(2*wait, 30*time.Second)
	}
}

func (a *Agent) healthStream(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := a.client.SubmitHealthReport(ctx)
	if err != nil {
		return err
	}
	lines.Say("stream-opened", lines.Fields{"stream": "health"})
	// The server never answers before we half-close: whatever comes is the end.
	over := make(chan error, 1)
	go func() { over <- stream.RecvMsg(&emptypb.Empty{}) }()
	ticker := time.NewTicker(a.settings.ReportInterval)
	defer ticker.Stop()
	for {
		select {
		case err := <-over:
			if err == nil {
				err = status.Error(codes.OK, "the server ended the stream")
			}
			return err
		case <-ticker.C:
		}
		report, err := a.report()
		if err != nil {
			lines.Say("report-skipped", lines.Fields{"error": err.Error()})
			continue
		}
		if err := stream.Send(report); err != nil {
			return <-over // Send only says EOF; the reason is in the answer.
		}
		lines.Say("reported", lines.Fields{"count": report.Count, "config_hash": report.ConfigHash})
	}
}

func pause(ctx context.Context, length time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(length):
		return nil
	}
}
