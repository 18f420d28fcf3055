package main

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"nstance/test/go_peers/internal/lines"
	"nstance/test/go_peers/internal/pb"
)

// watch follows the streams named (none named: all of them) until ctx ends.
func watch(ctx context.Context, connection *grpc.ClientConn, rest []string) error {
	ack := false
	wanted := map[string]bool{}
	for _, word := range rest {
		switch word {
		case "-ack":
			ack = true
		case "groups", "instances", "errors":
			wanted[word] = true
		default:
			return errUsage
		}
	}
	client := pb.NewOperatorServiceClient(connection)
	all := len(wanted) == 0
	ended := make(chan struct{}, 3)
	running := 0
	start := func(kind string, once func() error) {
		if !all && !wanted[kind] {
			return
		}
		running++
		go func() {
			again(ctx, kind, once)
			ended <- struct{}{}
		}()
	}
	start("groups", func() error { return follow(ctx, "groups", client.WatchGroups, nil) })
	start("errors", func() error { return follow(ctx, "errors", client.WatchErrors, nil) })
	start("instances", func() error {
		return follow(ctx, "instances", client.WatchInstances, func(event *pb.InstanceEvent) {
			if ack && event.Status == "pending_deletion" {
				acknowledge(ctx, client, event.InstanceId)
			}
		})
	})
	for range running {
		<-ended
	}
	return ctx.Err()
}

// again opens a stream again when it has ended: 0.5 s later at first, then twice as long, at most 5 s.
func again(ctx context.Context, kind string, once func() error) {
	wait := 500 * time.Millisecond
	for ctx.Err() == nil {
		began := time.Now()
		err := once()
		if ctx.Err() != nil {
			return
		}
		lines.Fail("stream-ended", err, lines.Fields{"stream": kind})
		if time.Since(began) > 10*time.Second {
			wait = 500 * time.Millisecond
		}
		if pause(ctx, wait) != nil {
			return
		}
		wait = min(2*wait, 5*time.Second)
	}
}

// follow tells every event of one stream until its end.
func follow[Event any](ctx context.Context, kind string,
	open func(context.Context, *emptypb.Empty, ...grpc.CallOption) (grpc.ServerStreamingClient[Event], error),
	also func(*Event)) error {
	stream, err := open(ctx, &emptypb.Empty{})
	if err != nil {
		return err
	}
	lines.Say("stream-opened", lines.Fields{"stream": kind})
	for {
		event, err := stream.Recv()
		if err != nil {
			return err
		}
		lines.Say("event", lines.Fields{"stream": kind, "message": lines.Message(any(event).(proto.Message))})
		if also != nil {
			also(event)
		}
	}
}

// acknowledge sends no drain id: operators of the Go implementation know of none.
func acknowledge(ctx context.Context, client pb.OperatorServiceClient, id string) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if _, err := client.AcknowledgeDrained(ctx, &pb.DrainAckRequest{InstanceId: id}); err != nil {
		lines.Fail("ack-failed", err, lines.Fields{"subject": id})
		return
	}
	lines.Say("acknowledged", lines.Fields{"subject": id})
}
