package main

import (
	"context"
	"errors"
	"regexp"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance/bench/baseline_go/internal/pb"
	"nstance/bench/baseline_go/internal/store"
	"nstance/bench/baseline_go/internal/table"
)

var nameRule = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

type operatorService struct {
	pb.UnimplementedOperatorServiceServer
	*server
}

func (o *operatorService) statusOf(tenant string, group table.Named) *pb.GroupStatus {
	return &pb.GroupStatus{Key: group.Key, Tenant: tenant, Template: group.Template, Size: group.Size,
		InstanceType: group.InstanceType, SubnetPool: group.SubnetPool, Vars: group.Vars, Etag: group.ETag(tenant)}
}

// ListGroups answers the tenant's groups, sorted by key.
func (o *operatorService) ListGroups(ctx context.Context, _ *emptypb.Empty) (*pb.ListGroupsResponse, error) {
	tenant := callerOf(ctx).Tenant
	answer := &pb.ListGroupsResponse{}
	for _, group := range o.table.Groups.List(tenant) {
		answer.Groups = append(answer.Groups, o.statusOf(tenant, group))
	}
	return answer, nil
}

func checkVars(name string, vars map[string]string) error {
	if len(vars) > 128 {
		return status.Errorf(codes.InvalidArgument, "%s: at most 128 entries", name)
	}
	for key, value := range vars {
		if len(key) > 128 || len(value) > 4096 {
			return status.Errorf(codes.InvalidArgument, "%s: a name has at most 128 bytes, a value 4096", name)
		}
	}
	return nil
}

// UpsertGroup: one compare-and-swap of the groups object per request, then the event, then the answer.
func (o *operatorService) UpsertGroup(ctx context.Context, request *pb.UpsertGroupRequest) (*pb.GroupStatus, error) {
	tenant := callerOf(ctx).Tenant
	config := request.GetConfig()
	if len(request.Key) > 32 || !nameRule.MatchString(request.Key) {
		return nil, status.Error(codes.InvalidArgument, "key: 1-32 lower-case letters, digits, single inner hyphens")
	}
	if config == nil || config.Size < 0 || config.Size > 10000 {
		return nil, status.Error(codes.InvalidArgument, "config.size: 0 to 10000")
	}
	if err := errors.Join(checkVars("vars", config.Vars), checkVars("args", config.Args)); err != nil {
		return nil, err
	}
	group, err := o.table.Groups.Upsert(ctx, tenant, request.Key, table.Group{Template: config.Template, Size: config.Size,
		InstanceType: config.InstanceType, SubnetPool: config.SubnetPool, Vars: config.Vars})
	if err != nil && group.Template == "" {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if err != nil {
		return nil, o.storeStatus(err)
	}
	answer := o.statusOf(tenant, table.Named{Key: request.Key, Group: group})
	o.table.Events.Send(tenant, "groups", &pb.GroupEvent{Type: pb.GroupEvent_TYPE_UPSERT, Group: answer})
	o.counters.upserts.Add(1)
	return answer, nil
}

// DeleteGroup is idempotent.
func (o *operatorService) DeleteGroup(ctx context.Context, request *pb.DeleteGroupRequest) (*emptypb.Empty, error) {
	tenant := callerOf(ctx).Tenant
	removed, err := o.table.Groups.Delete(ctx, tenant, request.Key)
	if err != nil {
		return nil, o.storeStatus(err)
	}
	if removed {
		o.table.Events.Send(tenant, "groups", &pb.GroupEvent{Type: pb.GroupEvent_TYPE_DELETE,
			Group: &pb.GroupStatus{Key: request.Key, Tenant: tenant}})
	}
	return &emptypb.Empty{}, nil
}

// CreateInstance writes the record; nothing is started, since there is no provider.
func (o *operatorService) CreateInstance(ctx context.Context, request *pb.CreateInstanceRequest) (*pb.CreateInstanceResponse, error) {
	tenant := callerOf(ctx).Tenant
	if request.GetConfig().GetGroup() == "" {
		return nil, status.Error(codes.InvalidArgument, "config.group: required")
	}
	if !o.table.Groups.Exists(tenant, request.Config.Group) {
		return nil, status.Error(codes.NotFound, "no such group")
	}
	id := request.InstanceId
	if id == "" {
		id = table.NewID("bch")
	}
	_, err := o.newInstance(ctx, table.Record{InstanceID: id, Tenant: tenant, Group: request.Config.Group, OnDemand: true})
	if err != nil && !errors.Is(err, store.ErrConflict) {
		return nil, o.storeStatus(err)
	}
	return &pb.CreateInstanceResponse{InstanceId: id, Status: "pending"}, nil
}

// GetInstanceStatus answers from the table.
func (o *operatorService) GetInstanceStatus(ctx context.Context, request *pb.GetInstanceStatusRequest) (*pb.InstanceStatusResponse, error) {
	tenant := callerOf(ctx).Tenant
	instance := o.table.Find(tenant, request.InstanceId)
	if instance == nil {
		return nil, status.Error(codes.NotFound, "no such instance")
	}
	record, report := instance.Snapshot()
	answer := &pb.InstanceStatusResponse{InstanceId: record.InstanceID, Tenant: tenant, Status: "running", CreatedAt: timestamppb.New(record.CreatedAt)}
	if !record.Serving() {
		answer.Status = "deleted"
	} else if record.RegisteredAt == nil {
		answer.Status = "pending"
	}
	if !report.At.IsZero() {
		answer.LastSeen = timestamppb.New(report.At)
	}
	return answer, nil
}

// DeleteInstance drains first when asked to, else it is gone at once.
func (o *operatorService) DeleteInstance(ctx context.Context, request *pb.DeleteInstanceRequest) (*pb.DeleteInstanceResponse, error) {
	if request.InstanceId == "" {
		return nil, status.Error(codes.InvalidArgument, "instance_id: required")
	}
	if request.Drain {
		return o.leave(ctx, request.InstanceId, "draining")
	}
	return o.leave(ctx, request.InstanceId, "gone")
}

// AcknowledgeDrained ends a drain.
func (o *operatorService) AcknowledgeDrained(ctx context.Context, request *pb.DrainAckRequest) (*emptypb.Empty, error) {
	answer, err := o.leave(ctx, request.InstanceId, "gone")
	if err == nil && answer.Status == "unknown" {
		return nil, status.Error(codes.NotFound, "no such instance")
	}
	return &emptypb.Empty{}, err
}

// leave moves an instance on to draining or gone, durably, and tells the watchers.
func (o *operatorService) leave(ctx context.Context, id, phase string) (*pb.DeleteInstanceResponse, error) {
	tenant := callerOf(ctx).Tenant
	instance := o.table.Find(tenant, id)
	if instance == nil {
		return &pb.DeleteInstanceResponse{Status: "unknown"}, nil
	}
	changed := false
	record, err := o.table.Change(ctx, instance, func(record *table.Record) error {
		if record.Phase == "gone" || record.Phase == phase {
			return errAgain
		}
		changed = true
		record.Phase, record.Status = phase, "deleting"
		return nil
	})
	if err != nil && !errors.Is(err, errAgain) {
		return nil, o.storeStatus(err)
	}
	if changed {
		event := &pb.InstanceEvent{InstanceId: id, Tenant: tenant, Group: record.Group, Status: "deleted", Reason: "requested"}
		if phase == "draining" {
			event.Status, event.UnhealthyAt = "pending_deletion", timestamppb.Now()
			event.DeleteAt = timestamppb.New(time.Now().Add(time.Minute))
		}
		o.table.Events.Send(tenant, "instances", event)
	}
	told := map[string]string{"draining": "draining", "gone": "deleted"}
	return &pb.DeleteInstanceResponse{Status: told[record.Phase]}, nil
}

// follow sends a snapshot, then events, until the client goes or is too slow.
func follow[Event any](o *operatorService, stream grpc.ServerStreamingServer[Event], kind string, snapshot func(tenant string) []*Event) error {
	tenant := callerOf(stream.Context()).Tenant
	watcher := o.table.Events.Watch(tenant, kind)
	defer o.table.Events.Leave(tenant, watcher)
	for _, event := range snapshot(tenant) {
		if err := stream.Send(event); err != nil {
			return err
		}
	}
	for {
		select {
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		case event, open := <-watcher.Queue:
			if !open {
				return status.Error(codes.Aborted, "too slow: connect again")
			}
			if err := stream.Send(any(event).(*Event)); err != nil {
				return err
			}
			o.counters.events.Add(1)
		}
	}
}

// WatchGroups begins with all groups of the tenant.
func (o *operatorService) WatchGroups(_ *emptypb.Empty, stream grpc.ServerStreamingServer[pb.GroupEvent]) error {
	return follow(o, stream, "groups", func(tenant string) (all []*pb.GroupEvent) {
		for _, group := range o.table.Groups.List(tenant) {
			all = append(all, &pb.GroupEvent{Type: pb.GroupEvent_TYPE_UPSERT, Group: o.statusOf(tenant, group)})
		}
		return all
	})
}

func nothing[Event any](string) []*Event { return nil }

// WatchInstances tells of drains and deletions.
func (o *operatorService) WatchInstances(_ *emptypb.Empty, stream grpc.ServerStreamingServer[pb.InstanceEvent]) error {
	return follow(o, stream, "instances", nothing[pb.InstanceEvent])
}

// WatchErrors stays silent: nothing here can fail on its own.
func (o *operatorService) WatchErrors(_ *emptypb.Empty, stream grpc.ServerStreamingServer[pb.ErrorEvent]) error {
	return follow(o, stream, "errors", nothing[pb.ErrorEvent])
}
