// baseline-agent is a small agent on grpc-go: the other side of the agent's footprint. It does what ours does
// while it is idle: three streams, a sample every 5 s, a report per interval; it never ends for an error of
// the server. The environment is the agent's.
package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log"
	mathrand "math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance/bench/baseline_go/internal/pb"
)

type agent struct {
	id, identity, keys, recv string
	registration, server     string
	interval                 time.Duration
	started                  time.Time
	samples                  *sampler
	client                   pb.AgentServiceClient
	kick                     chan struct{}
	count                    int64
}

func environment(name, otherwise string) string {
	if value := os.Getenv("NSTANCE_" + name); value != "" {
		return value
	}
	return otherwise
}

func main() {
	interval, err := time.ParseDuration(environment("REPORT_INTERVAL", "60s"))
	if err != nil {
		log.Fatal(err)
	}
	made := &agent{
		id: os.Getenv("NSTANCE_INSTANCE_ID"), identity: environment("IDENTITY_DIR", "identity"),
		keys: environment("KEYS_DIR", "keys"), recv: environment("RECV_DIR", "recv"),
		registration: os.Getenv("NSTANCE_SERVER_REGISTRATION_ADDR"), server: os.Getenv("NSTANCE_SERVER_AGENT_ADDR"),
		interval: interval, started: time.Now(), samples: newSampler(), kick: make(chan struct{}, 1)}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := made.run(ctx); err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

func (a *agent) run(ctx context.Context) error {
	roots := x509.NewCertPool()
	text, err := os.ReadFile(filepath.Join(a.identity, "ca.crt"))
	if err != nil || !roots.AppendCertsFromPEM(text) {
		return fmt.Errorf("ca.crt: %w", err)
	}
	certificate, err := tls.LoadX509KeyPair(filepath.Join(a.identity, "identity.crt"), filepath.Join(a.identity, "identity.key"))
	if err != nil {
		if certificate, err = a.register(ctx, roots); err != nil {
			return err
		}
	}
	connection, err := dial(a.server, roots, &certificate)
	if err != nil {
		return err
	}
	defer connection.Close()
	a.client = pb.NewAgentServiceClient(connection)
	go a.samples.run(ctx)
	go again(ctx, "keys", func() error { return a.keyStream(ctx) })
	go again(ctx, "files", func() error { return a.fileStream(ctx) })
	again(ctx, "health", func() error { return a.healthStream(ctx) })
	return nil
}

func dial(address string, roots *x509.CertPool, certificate *tls.Certificate) (*grpc.ClientConn, error) {
	config := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}
	if certificate != nil {
		config.Certificates = []tls.Certificate{*certificate}
	}
	return grpc.NewClient(address, grpc.WithTransportCredentials(credentials.NewTLS(config)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 10 * time.Second, PermitWithoutStream: true}))
}

// again opens a stream again: 0.5 s x 2^n with jitter, at most 30 s.
func again(ctx context.Context, name string, once func() error) {
	for n := 0; ctx.Err() == nil; n++ {
		began := time.Now()
		err := once()
		if ctx.Err() != nil {
			return
		}
		log.Printf("%s stream: %v", name, err)
		if time.Since(began) > 30*time.Second {
			n = 0
		}
		wait := min(30*time.Second, 500*time.Millisecond<<min(n, 6))
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(float64(wait) * (0.5 + mathrand.Float64()))):
		}
	}
}

func (a *agent) register(ctx context.Context, roots *x509.CertPool) (tls.Certificate, error) {
	token, err := os.ReadFile(filepath.Join(a.identity, "nonce.jwt"))
	if err != nil {
		return tls.Certificate{}, err
	}
	private, public, _, err := newKeyPair()
	if err != nil {
		return tls.Certificate{}, err
	}
	if err := os.WriteFile(filepath.Join(a.identity, "identity.key"), private, 0o600); err != nil {
		return tls.Certificate{}, err
	}
	connection, err := dial(a.registration, roots, nil)
	if err != nil {
		return tls.Certificate{}, err
	}
	defer connection.Close()
	answer, err := pb.NewRegistrationServiceClient(connection).RegisterAgent(ctx, &pb.RegisterClientRequest{
		RegistrationNonceJwt: strings.TrimSpace(string(token)), PublicKeyPem: public})
	if err != nil {
		return tls.Certificate{}, err
	}
	if err := os.WriteFile(filepath.Join(a.identity, "identity.crt"), answer.ClientCertificatePem, 0o600); err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(answer.ClientCertificatePem, private)
}

func newKeyPair() (private, public, spki []byte, err error) {
	key, secret, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, nil, err
	}
	secretDER, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		return nil, nil, nil, err
	}
	if spki, err = x509.MarshalPKIXPublicKey(key); err != nil {
		return nil, nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secretDER}),
		pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: spki}), spki, nil
}

func (a *agent) keyStream(ctx context.Context) error {
	stream, err := a.client.ReceiveKeyRequests(ctx, &emptypb.Empty{})
	if err != nil {
		return err
	}
	for {
		request, err := stream.Recv()
		if err != nil {
			return err
		}
		answer := &pb.PublicKeysRequest{InstanceId: a.id}
		for _, name := range request.KeyNames {
			private, public, spki, err := newKeyPair()
			if err != nil {
				return err
			}
			base := filepath.Join(a.keys, filepath.Base(name))
			if err := errors.Join(os.WriteFile(base+".key", private, 0o640), os.WriteFile(base+".pub", public, 0o640)); err != nil {
				return err
			}
			answer.Keys = append(answer.Keys, &pb.PublicKeySubmission{Filename: name,
				PublicKeyPem: []byte(base64.StdEncoding.EncodeToString(spki))})
		}
		if _, err := a.client.SubmitPublicKeys(ctx, answer); err != nil {
			return err
		}
	}
}

func (a *agent) fileStream(ctx context.Context) error {
	stream, err := a.client.ReceiveFiles(ctx, &emptypb.Empty{})
	if err != nil {
		return err
	}
	var patch []*pb.FileTransfer
	for {
		transfer, err := stream.Recv()
		if err != nil {
			return err
		}
		if transfer.ConfigHash == "" {
			patch = append(patch, transfer)
			continue
		}
		if err := a.apply(patch, transfer.ConfigHash); err != nil {
			log.Printf("patch: %v", err)
		}
		patch = nil
		select {
		case a.kick <- struct{}{}:
		default:
		}
	}
}

func (a *agent) apply(patch []*pb.FileTransfer, hash string) error {
	for _, file := range patch {
		if file.Filename != filepath.Base(file.Filename) || strings.HasPrefix(file.Filename, ".") {
			return fmt.Errorf("%q is not a base name", file.Filename)
		}
		if strings.HasSuffix(file.Filename, ".json") && !json.Valid(file.Content) {
			return fmt.Errorf("%s: not JSON", file.Filename)
		}
	}
	for _, file := range patch {
		path := filepath.Join(a.recv, file.Filename)
		if err := os.WriteFile(path+".new", file.Content, 0o640); err != nil {
			return err
		}
		if err := os.Rename(path+".new", path); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(a.identity, "config.hash"), []byte(hash), 0o600)
}

func (a *agent) healthStream(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := a.client.SubmitHealthReport(ctx)
	if err != nil {
		return err
	}
	over := make(chan error, 1)
	go func() { over <- stream.RecvMsg(&emptypb.Empty{}) }()
	for {
		a.count++
		if err := stream.Send(a.report()); err != nil {
			return <-over
		}
		jitter := time.Duration(float64(a.interval) * (0.9 + 0.2*mathrand.Float64()))
		select {
		case err := <-over:
			return fmt.Errorf("ended by the server: %w", err)
		case <-a.kick:
		case <-time.After(jitter):
		}
	}
}

func (a *agent) report() *pb.HealthReportRequest {
	hash, _ := os.ReadFile(filepath.Join(a.identity, "config.hash"))
	report := &pb.HealthReportRequest{Version: "baseline", InstanceId: a.id, Timestamp: timestamppb.Now(), Count: a.count,
		Uptime: time.Since(a.started).Truncate(time.Second).String(), Metrics: a.samples.latest(), ConfigHash: string(hash),
		OneMinute: a.samples.mean(12), FiveMinutes: a.samples.mean(60), FifteenMinutes: a.samples.mean(180),
		Files: map[string]*pb.FileStatus{}, AgentStartedAt: timestamppb.New(a.started), ReportInterval: durationpb.New(a.interval)}
	entries, _ := os.ReadDir(a.recv)
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			report.Files[entry.Name()] = &pb.FileStatus{Status: &pb.FileStatus_LastModified{LastModified: timestamppb.New(info.ModTime())}}
		}
	}
	return report
}
