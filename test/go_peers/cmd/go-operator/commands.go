package main

import (
	"context"
	"flag"
	"io"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"nstance/test/go_peers/internal/lines"
	"nstance/test/go_peers/internal/pb"
)

type command func(ctx context.Context, connection *grpc.ClientConn, set *settings, rest []string) error

var commands = map[string]command{
	"renew":        renew,
	"groups":       none(pb.OperatorServiceClient.ListGroups),
	"config":       none(pb.OperatorServiceClient.GetConfigStatus),
	"refresh":      none(pb.OperatorServiceClient.RefreshConfig),
	"upsert":       upsert,
	"create":       create,
	"delete-group": named("deleted-group", pb.OperatorServiceClient.DeleteGroup, func(key string) *pb.DeleteGroupRequest { return &pb.DeleteGroupRequest{Key: key} }),
	"delete":       named("deleted", pb.OperatorServiceClient.DeleteInstance, func(id string) *pb.DeleteInstanceRequest { return &pb.DeleteInstanceRequest{InstanceId: id} }),
	"status":       named("status", pb.OperatorServiceClient.GetInstanceStatus, func(id string) *pb.GetInstanceStatusRequest { return &pb.GetInstanceStatusRequest{InstanceId: id} }),
	"ack":          named("acknowledged", pb.OperatorServiceClient.AcknowledgeDrained, func(id string) *pb.DrainAckRequest { return &pb.DrainAckRequest{InstanceId: id} }),
}

type method[Request, Response any] func(pb.OperatorServiceClient, context.Context, *Request, ...grpc.CallOption) (*Response, error)

// none is a command without arguments, for a method without a request.
func none[Response any](call method[emptypb.Empty, Response]) command {
	return func(ctx context.Context, connection *grpc.ClientConn, _ *settings, rest []string) error {
		if len(rest) != 0 {
			return errUsage
		}
		answer, err := call(pb.NewOperatorServiceClient(connection), ctx, &emptypb.Empty{})
		return told("answer", "", any(answer), err)
	}
}

// named is a command whose only argument names a group or an instance.
func named[Request, Response any](event string, call method[Request, Response], request func(string) *Request) command {
	return func(ctx context.Context, connection *grpc.ClientConn, _ *settings, rest []string) error {
		if len(rest) != 1 {
			return errUsage
		}
		answer, err := call(pb.NewOperatorServiceClient(connection), ctx, request(rest[0]))
		return told(event, rest[0], any(answer), err)
	}
}

func told(event, subject string, answer any, err error) error {
	if err != nil {
		return err
	}
	fields := lines.Fields{"answer": lines.Message(answer.(proto.Message))}
	if subject != "" {
		fields["subject"] = subject
	}
	lines.Say(event, fields)
	return nil
}

// overrides are the flags that upsert and create share.
type overrides struct {
	flags        *flag.FlagSet
	id           string
	template     string
	size         int
	instanceType string
	subnetPool   string
	vars         map[string]string
}

// parse reads `SUBJECT [flags]`.
func parse(rest []string) (string, *overrides, error) {
	if len(rest) == 0 || strings.HasPrefix(rest[0], "-") {
		return "", nil, errUsage
	}
	read := &overrides{flags: flag.NewFlagSet("go-operator", flag.ContinueOnError), vars: map[string]string{}}
	read.flags.SetOutput(io.Discard)
	read.flags.StringVar(&read.id, "id", "", "")
	read.flags.StringVar(&read.template, "template", "", "")
	read.flags.IntVar(&read.size, "size", 0, "")
	read.flags.StringVar(&read.instanceType, "instance-type", "", "")
	read.flags.StringVar(&read.subnetPool, "subnet-pool", "", "")
	read.flags.Func("var", "", func(text string) error {
		name, value, found := strings.Cut(text, "=")
		if !found {
			return errUsage
		}
		read.vars[name] = value
		return nil
	})
	if read.flags.Parse(rest[1:]) != nil || read.flags.NArg() != 0 {
		return "", nil, errUsage
	}
	return rest[0], read, nil
}

func upsert(ctx context.Context, connection *grpc.ClientConn, _ *settings, rest []string) error {
	key, read, err := parse(rest)
	if err != nil {
		return err
	}
	answer, err := pb.NewOperatorServiceClient(connection).UpsertGroup(ctx, &pb.UpsertGroupRequest{
		Key: key,
		Config: &pb.GroupConfig{Template: read.template, Size: int32(read.size), InstanceType: read.instanceType,
			SubnetPool: read.subnetPool, Vars: read.vars},
	})
	return told("upserted", key, answer, err)
}

func create(ctx context.Context, connection *grpc.ClientConn, _ *settings, rest []string) error {
	group, read, err := parse(rest)
	if err != nil {
		return err
	}
	answer, err := pb.NewOperatorServiceClient(connection).CreateInstance(ctx, &pb.CreateInstanceRequest{
		InstanceId: read.id,
		Config: &pb.InstanceConfig{Group: group, Template: read.template, InstanceType: read.instanceType,
			SubnetPool: read.subnetPool, Vars: read.vars},
	})
	return told("created", group, answer, err)
}
