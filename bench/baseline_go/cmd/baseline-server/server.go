package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"nstance/bench/baseline_go/internal/pki"
	"nstance/bench/baseline_go/internal/store"
	"nstance/bench/baseline_go/internal/table"
)

const (
	hashOfNothing = "sha256:e5ae13dd1e88c12b792290cbb21fee11f01e4237521f8869d826a1a7d3b3d30d"
	agentLife     = 24 * time.Hour
	operatorLife  = 720 * time.Hour
	tokenLife     = 12 * time.Hour
	preparers     = 64
)

type counters struct {
	joins, reports, upserts, events, storeErrors, streams atomic.Int64
}

type server struct {
	options   *options
	authority *pki.Authority
	table     *table.Table
	cache     *table.Cache
	tenants   map[string]bool
	counters  counters
	joining   atomic.Int64
	keyOwners sync.Map // SHA-256 of a public key -> who has it.
}

type tokenLine struct {
	InstanceID string `json:"instance_id,omitempty"`
	Tenant     string `json:"tenant"`
	Token      string `json:"token"`
}

// prepare makes the records and tokens that the generator joins with, before anything is measured.
func (s *server) prepare(ctx context.Context) error {
	if err := s.table.Load(ctx); err != nil {
		return err
	}
	for i := range s.options.instances {
		s.tenants[s.tenantOf(i)] = true
	}
	made := make([]any, s.options.instances)
	failed := make(chan error, preparers)
	var next atomic.Int64
	for range preparers {
		go func() {
			for i := next.Add(1) - 1; i < int64(len(made)); i = next.Add(1) - 1 {
				line, err := s.newInstance(ctx, table.Record{InstanceID: table.NewID("bch"), Tenant: s.tenantOf(int(i)), Group: "bench"})
				if err != nil {
					failed <- err
					return
				}
				made[i] = line
			}
			failed <- nil
		}()
	}
	for range preparers {
		if err := <-failed; err != nil {
			return err
		}
	}
	if err := writeLines(filepath.Join(s.options.dir, "tokens.jsonl"), made); err != nil {
		return err
	}
	var operators []any
	for _, tenant := range slices.Sorted(maps.Keys(s.tenants)) {
		token, err := s.authority.SignToken(pki.Claims{Subject: s.options.cluster, Kind: "operator", Tenant: tenant}, tokenLife)
		if err != nil {
			return err
		}
		operators = append(operators, tokenLine{Tenant: tenant, Token: token})
	}
	return writeLines(filepath.Join(s.options.dir, "operator-tokens.jsonl"), operators)
}

func (s *server) tenantOf(number int) string {
	if s.options.perTenant == 0 {
		return "default"
	}
	return fmt.Sprintf("t%d", number/s.options.perTenant)
}

// newInstance writes a record that waits for its agent.
func (s *server) newInstance(ctx context.Context, record table.Record) (tokenLine, error) {
	token, err := s.authority.SignToken(pki.Claims{Subject: record.InstanceID, Kind: "agent", ConfigHash: hashOfNothing,
		Shard: s.options.shard, Group: record.Group, OnDemand: record.OnDemand, Tenant: record.Tenant}, tokenLife)
	if err != nil {
		return tokenLine{}, err
	}
	record.Status, record.Phase, record.CreatedAt = "pending", "provisioned", time.Now().UTC()
	record.Config = map[string]string{"instance_type": "bench.small"}
	record.NonceSHA256, record.ConfigHash = pki.HashToken(token), hashOfNothing
	return tokenLine{InstanceID: record.InstanceID, Tenant: record.Tenant, Token: token}, s.table.Create(ctx, record)
}

func writeLines(path string, lines []any) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	buffered := bufio.NewWriter(file)
	encoder := json.NewEncoder(buffered)
	for _, line := range lines {
		if err := encoder.Encode(line); err != nil {
			return err
		}
	}
	return buffered.Flush()
}

type portLimits struct {
	message    int
	streams    uint32
	clientAuth tls.ClientAuthType
	handshake  time.Duration
	role       string // Empty: anybody.
}

var (
	registrationLimits = portLimits{message: 64 << 10, streams: 4, clientAuth: tls.NoClientCert, handshake: 5 * time.Second}
	agentLimits        = portLimits{message: 256 << 10, streams: 16, clientAuth: tls.RequireAndVerifyClientCert, handshake: 30 * time.Second, role: "agent"}
	operatorLimits     = portLimits{message: 4 << 20, streams: 128, clientAuth: tls.RequireAndVerifyClientCert, handshake: 30 * time.Second, role: "operator"}
)

// serverOptions: TLS 1.3 and limits as in the contract; the write buffer is shared, since that saves most of
// what grpc-go keeps per idle connection.
func (s *server) serverOptions(address net.Addr, limits portLimits) ([]grpc.ServerOption, error) {
	host, _, err := net.SplitHostPort(address.String())
	if err != nil {
		return nil, err
	}
	certificate, err := s.authority.ServerCertificate([]string{host})
	if err != nil {
		return nil, err
	}
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, ClientAuth: limits.clientAuth, ClientCAs: s.authority.Roots,
		MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true}
	options := []grpc.ServerOption{
		grpc.Creds(credentials.NewTLS(config)),
		grpc.MaxRecvMsgSize(limits.message),
		grpc.MaxSendMsgSize(4 << 20),
		grpc.MaxConcurrentStreams(limits.streams),
		grpc.MaxHeaderListSize(16 << 10),
		grpc.ConnectionTimeout(limits.handshake),
		grpc.SharedWriteBuffer(true),
	}
	if limits.role != "" {
		options = append(options,
			grpc.KeepaliveParams(keepalive.ServerParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
			grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
			grpc.UnaryInterceptor(func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
				caller, err := s.gate(ctx, limits.role)
				if err != nil {
					return nil, err
				}
				return next(context.WithValue(ctx, callerKey{}, caller), request)
			}),
			grpc.StreamInterceptor(func(service any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
				caller, err := s.gate(stream.Context(), limits.role)
				if err != nil {
					return err
				}
				s.counters.streams.Add(1)
				defer s.counters.streams.Add(-1)
				return next(service, &callerStream{ServerStream: stream, ctx: context.WithValue(stream.Context(), callerKey{}, caller)})
			}))
	}
	return options, nil
}

type callerKey struct{}

// caller is who calls, as the certificate says, and for agents its row.
type caller struct {
	pki.Client
	instance *table.Instance
}

type callerStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (c *callerStream) Context() context.Context { return c.ctx }

func callerOf(ctx context.Context) *caller { return ctx.Value(callerKey{}).(*caller) }

// gate is passed by every call on the agent and operator ports.
func (s *server) gate(ctx context.Context, role string) (*caller, error) {
	from, ok := peer.FromContext(ctx)
	if !ok {
		return nil, status.Error(codes.Unauthenticated, "no peer")
	}
	info, ok := from.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.VerifiedChains) == 0 {
		return nil, status.Error(codes.Unauthenticated, "no certificate")
	}
	client, err := pki.Identity(info.State.VerifiedChains[0][0])
	switch {
	case err != nil:
		return nil, status.Error(codes.Unauthenticated, err.Error())
	case client.Role != role:
		return nil, status.Error(codes.PermissionDenied, "the role does not fit this port")
	case !s.tenants[client.Tenant]:
		return nil, status.Error(codes.PermissionDenied, "the tenant is not defined")
	}
	found := &caller{Client: client}
	if role == "agent" {
		found.instance = s.table.Find(client.Tenant, client.ID)
		if found.instance == nil {
			return nil, status.Error(codes.PermissionDenied, "the instance is not served")
		}
		if record, _ := found.instance.Snapshot(); !record.Serving() {
			return nil, status.Error(codes.PermissionDenied, "the instance is not served")
		}
	}
	return found, nil
}

// serveHealth answers the paths that the benchmarks and the forwarder ask for.
func (s *server) serveHealth() (string, error) {
	listener, err := net.Listen("tcp", s.options.health)
	if err != nil {
		return "", err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	mux.HandleFunc("/leader/health", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"shard":%q,"leader":true,"id":"baseline","epoch":1}`, s.options.shard)
	})
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		for name, value := range map[string]int64{
			"registrations_total": s.counters.joins.Load(), "health_reports_total": s.counters.reports.Load(),
			"group_upserts_total": s.counters.upserts.Load(), "watch_events_total": s.counters.events.Load(),
			"store_errors_total": s.counters.storeErrors.Load(), "open_streams": s.counters.streams.Load()} {
			fmt.Fprintf(w, "nstance_%s %d\n", name, value)
		}
	})
	go http.Serve(listener, mux)
	return listener.Addr().String(), nil
}

// storeStatus is how an error of the store is answered.
func (s *server) storeStatus(err error) error {
	s.counters.storeErrors.Add(1)
	if err == store.ErrConflict {
		return status.Error(codes.Aborted, "lost a concurrent write")
	}
	return status.Error(codes.Unavailable, "the store cannot be reached")
}
