// baseline-server is a small server of the wire contract on grpc-go: the other side of our benchmarks. See
// README.md for what it does and what it leaves out.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"

	"nstance/bench/baseline_go/internal/pb"
	"nstance/bench/baseline_go/internal/pki"
	"nstance/bench/baseline_go/internal/store"
	"nstance/bench/baseline_go/internal/table"
)

type options struct {
	dir           string
	objectStore   string
	database      bool
	cluster       string
	shard         string
	tenants       string
	registration  string
	operator      string
	agent         string
	health        string
	addressesFile string
	instances     int
	perTenant     int
	interval      time.Duration
	keys          string
}

func readOptions() *options {
	read := &options{}
	flag.StringVar(&read.dir, "dir", "", "working folder: ca.crt, tokens.jsonl, operator-tokens.jsonl, objects/, nstance.db")
	flag.StringVar(&read.objectStore, "store", "", "http://host:port/bucket; empty: files below -dir")
	flag.BoolVar(&read.database, "sqlite", true, "write health reports behind into SQLite")
	flag.StringVar(&read.cluster, "cluster", "bench", "cluster id")
	flag.StringVar(&read.shard, "shard", "a", "shard")
	flag.StringVar(&read.tenants, "tenants", "default", "comma-separated")
	flag.StringVar(&read.registration, "registration", "127.0.0.1:0", "address")
	flag.StringVar(&read.operator, "operator", "127.0.0.1:0", "address")
	flag.StringVar(&read.agent, "agent", "127.0.0.1:0", "address")
	flag.StringVar(&read.health, "health", "127.0.0.1:0", "address of health and metrics")
	flag.StringVar(&read.addressesFile, "addresses-file", "", "JSON object of the addresses really bound")
	flag.IntVar(&read.instances, "instances", 0, "records with tokens to make before serving")
	flag.IntVar(&read.perTenant, "per-tenant", 0, "one tenant t0, t1 ... for so many instances; 0: all are of `default`")
	flag.DurationVar(&read.interval, "interval", time.Minute, "health check interval")
	flag.StringVar(&read.keys, "keys", "", "comma-separated key pairs that every agent is asked for")
	flag.Parse()
	return read
}

func main() {
	log.SetFlags(log.LstdFlags | log.Lmicroseconds)
	if err := run(readOptions()); err != nil {
		log.Fatal(err)
	}
}

func openStore(read *options) (store.Store, error) {
	if read.objectStore != "" {
		return store.OpenHTTP(strings.TrimSuffix(read.objectStore, "/")), nil
	}
	return store.OpenFolder(filepath.Join(read.dir, "objects"))
}

func run(read *options) error {
	if read.dir == "" {
		return fmt.Errorf("-dir is required")
	}
	if err := os.MkdirAll(read.dir, 0o755); err != nil {
		return err
	}
	objects, err := openStore(read)
	if err != nil {
		return err
	}
	authority, err := pki.NewAuthority(read.cluster)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(read.dir, "ca.crt"), authority.PEM, 0o644); err != nil {
		return err
	}
	server := &server{options: read, authority: authority, table: table.New(objects, read.shard), tenants: map[string]bool{"default": true}}
	for _, tenant := range strings.Split(read.tenants, ",") {
		server.tenants[tenant] = true
	}
	if read.database {
		if server.cache, err = table.OpenCache(filepath.Join(read.dir, "nstance.db")); err != nil {
			return err
		}
		defer server.cache.Close()
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := server.prepare(ctx); err != nil {
		return err
	}
	return server.serve(ctx)
}

// serve opens the listeners and runs until ctx ends.
func (s *server) serve(ctx context.Context) error {
	addresses := map[string]any{"epoch": 1}
	var grpcServers []*grpc.Server
	open := func(name, address string, limits portLimits, register func(*grpc.Server)) error {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		options, err := s.serverOptions(listener.Addr(), limits)
		if err != nil {
			return err
		}
		made := grpc.NewServer(options...)
		register(made)
		grpcServers = append(grpcServers, made)
		addresses[name] = listener.Addr().String()
		go made.Serve(listener)
		return nil
	}
	if err := open("registration", s.options.registration, registrationLimits, func(to *grpc.Server) {
		pb.RegisterRegistrationServiceServer(to, &registrationService{server: s})
	}); err != nil {
		return err
	}
	if err := open("agent", s.options.agent, agentLimits, func(to *grpc.Server) {
		pb.RegisterAgentServiceServer(to, &agentService{server: s})
	}); err != nil {
		return err
	}
	if err := open("operator", s.options.operator, operatorLimits, func(to *grpc.Server) {
		pb.RegisterOperatorServiceServer(to, &operatorService{server: s})
	}); err != nil {
		return err
	}
	health, err := s.serveHealth()
	if err != nil {
		return err
	}
	addresses["health"] = health
	if s.options.addressesFile != "" {
		text, err := json.Marshal(addresses)
		if err != nil {
			return err
		}
		temporary := s.options.addressesFile + ".new"
		if err := os.WriteFile(temporary, text, 0o644); err != nil {
			return err
		}
		if err := os.Rename(temporary, s.options.addressesFile); err != nil {
			return err
		}
	}
	log.Printf("ready: %v", addresses)
	<-ctx.Done()
	for _, one := range grpcServers {
		one.Stop()
	}
	return nil
}
