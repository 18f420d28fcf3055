package main

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"io"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance/bench/baseline_go/internal/pb"
	"nstance/bench/baseline_go/internal/table"
)

type agentService struct {
	pb.UnimplementedAgentServiceServer
	*server
	agents sync.Map // Instance id -> *agentStreams.
}

// agentStreams is what the streams of one agent tell each other.
type agentStreams struct {
	push  chan struct{} // Files are due.
	mutex sync.Mutex
	keys  map[string][]byte
	sent  time.Time
}

func (a *agentService) streamsOf(id string) *agentStreams {
	found, _ := a.agents.LoadOrStore(id, &agentStreams{push: make(chan struct{}, 1)})
	return found.(*agentStreams)
}

// SubmitHealthReport takes reports until the agent closes. The server dates them.
func (a *agentService) SubmitHealthReport(stream grpc.ClientStreamingServer[pb.HealthReportRequest, emptypb.Empty]) error {
	from := callerOf(stream.Context())
	record, _ := from.instance.Snapshot()
	streams := a.streamsOf(from.ID)
	limit := newRate(time.Now())
	for {
		report, err := stream.Recv()
		if err == io.EOF {
			return stream.SendAndClose(&emptypb.Empty{})
		}
		if err != nil {
			return err
		}
		if report.InstanceId != from.ID {
			return status.Error(codes.PermissionDenied, "instance ID mismatch")
		}
		now := time.Now()
		if !limit.allow(now) {
			return status.Error(codes.ResourceExhausted, "more than 100 reports in a second")
		}
		from.instance.Heard(table.Report{At: now, ConfigHash: report.ConfigHash, Count: report.Count,
			Terminating: report.TerminationNotice != nil})
		a.cache.Put(table.HealthRow{InstanceID: from.ID, At: now, Report: report, ConfigHash: report.ConfigHash,
			Terminating: report.TerminationNotice != nil})
		a.counters.reports.Add(1)
		if report.ConfigHash != record.ConfigHash && streams.due(now) {
			poke(streams.push)
		}
	}
}

// rate counts reports of one second.
type rate struct {
	second int64
	count  int
}

func newRate(now time.Time) *rate { return &rate{second: now.Unix()} }

func (r *rate) allow(now time.Time) bool {
	if second := now.Unix(); second != r.second {
		r.second, r.count = second, 0
	}
	r.count++
	return r.count <= 100
}

// due: a patch is repeated at most every 30 s.
func (s *agentStreams) due(now time.Time) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return now.Sub(s.sent) > 30*time.Second
}

func poke(channel chan struct{}) {
	select {
	case channel <- struct{}{}:
	default:
	}
}

// ReceiveFiles sends a patch to a freshly registered instance, and whenever one is due.
func (a *agentService) ReceiveFiles(_ *emptypb.Empty, stream grpc.ServerStreamingServer[pb.FileTransfer]) error {
	from := callerOf(stream.Context())
	record, _ := from.instance.Snapshot()
	streams := a.streamsOf(from.ID)
	if record.RegisteredAt != nil && time.Since(*record.RegisteredAt) < 2*a.options.interval {
		poke(streams.push)
	}
	for {
		select {
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		case <-streams.push:
		}
		if err := a.sendPatch(stream, &record, streams); err != nil {
			return err
		}
	}
}

func (a *agentService) sendPatch(stream grpc.ServerStreamingServer[pb.FileTransfer], record *table.Record, streams *agentStreams) error {
	streams.mutex.Lock()
	streams.sent = time.Now()
	streams.mutex.Unlock()
	err := stream.Send(&pb.FileTransfer{Filename: "node.env", Content: []byte("NODE=" + record.InstanceID),
		LastModified: timestamppb.New(record.CreatedAt.Truncate(time.Second))})
	if err != nil {
		return err
	}
	return stream.Send(&pb.FileTransfer{ConfigHash: record.ConfigHash})
}

// ReceiveKeyRequests asks at once for what is missing, then waits.
func (a *agentService) ReceiveKeyRequests(_ *emptypb.Empty, stream grpc.ServerStreamingServer[pb.KeyGenerationRequest]) error {
	streams := a.streamsOf(callerOf(stream.Context()).ID)
	var missing []string
	streams.mutex.Lock()
	for name := range strings.SplitSeq(a.options.keys, ",") {
		if name != "" && streams.keys[name] == nil {
			missing = append(missing, name)
		}
	}
	streams.mutex.Unlock()
	if len(missing) > 0 {
		if err := stream.Send(&pb.KeyGenerationRequest{KeyNames: missing}); err != nil {
			return err
		}
	}
	<-stream.Context().Done()
	return status.FromContextError(stream.Context().Err()).Err()
}

// SubmitPublicKeys stores all keys or none.
func (a *agentService) SubmitPublicKeys(ctx context.Context, request *pb.PublicKeysRequest) (*emptypb.Empty, error) {
	from := callerOf(ctx)
	if request.InstanceId != from.ID {
		return nil, status.Error(codes.PermissionDenied, "instance ID mismatch")
	}
	if len(request.Keys) > 64 {
		return nil, status.Error(codes.InvalidArgument, "keys: at most 64")
	}
	taken := map[string][]byte{}
	for _, key := range request.Keys {
		der, err := base64.StdEncoding.DecodeString(string(key.PublicKeyPem))
		if err != nil {
			return nil, status.Errorf(codes.InvalidArgument, "keys: %q is not base64", key.Filename)
		}
		parsed, err := x509.ParsePKIXPublicKey(der)
		if _, ok := parsed.(ed25519.PublicKey); err != nil || !ok || taken[key.Filename] != nil {
			return nil, status.Errorf(codes.InvalidArgument, "keys: %q is no Ed25519 key, or is there twice", key.Filename)
		}
		taken[key.Filename] = der
	}
	streams := a.streamsOf(from.ID)
	streams.mutex.Lock()
	streams.keys = taken
	streams.mutex.Unlock()
	poke(streams.push)
	return &emptypb.Empty{}, nil
}
