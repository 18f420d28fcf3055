// Command server is the side grpc-go of the transport benchmark: it parses reports and does nothing
// else. Arguments and output as bench/transport/server_main.cc.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/bench/transport/pb"
)

type agents struct {
	pb.UnimplementedAgentServiceServer
	reports, unary atomic.Uint64
}

func (a *agents) SubmitHealthReport(stream grpc.ClientStreamingServer[pb.HealthReportRequest, emptypb.Empty]) error {
	for {
		if _, err := stream.Recv(); err == io.EOF {
			return stream.SendAndClose(&emptypb.Empty{})
		} else if err != nil {
			return err
		}
		a.reports.Add(1)
	}
}

func (a *agents) ReceiveKeyRequests(_ *emptypb.Empty, stream grpc.ServerStreamingServer[pb.KeyGenerationRequest]) error {
	<-stream.Context().Done()
	return nil
}

func (a *agents) ReceiveFiles(_ *emptypb.Empty, stream grpc.ServerStreamingServer[pb.FileTransfer]) error {
	<-stream.Context().Done()
	return nil
}

func (a *agents) SubmitPublicKeys(context.Context, *pb.PublicKeysRequest) (*emptypb.Empty, error) {
	a.unary.Add(1)
	return &emptypb.Empty{}, nil
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: server FOLDER")
	}
	folder := os.Args[1]
	pair, err := tls.LoadX509KeyPair(filepath.Join(folder, "server.pem"), filepath.Join(folder, "server.key"))
	must(err)
	ca, err := os.ReadFile(filepath.Join(folder, "ca.pem"))
	must(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	server := grpc.NewServer(
		grpc.Creds(credentials.NewTLS(&tls.Config{
			Certificates:           []tls.Certificate{pair},
			ClientCAs:              roots,
			ClientAuth:             tls.RequireAndVerifyClientCert,
			MinVersion:             tls.VersionTLS13,
			SessionTicketsDisabled: true,
		})),
		// The same windows as the other sides; probing for better ones would cost it pings.
		grpc.InitialWindowSize(64*1024),
		grpc.InitialConnWindowSize(256*1024),
		grpc.MaxConcurrentStreams(16),
	)
	handlers := &agents{}
	pb.RegisterAgentServiceServer(server, handlers)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	go func() { must(server.Serve(listener)) }()
	fmt.Printf("PORT %d\n", listener.Addr().(*net.TCPAddr).Port)
	_, _ = io.Copy(io.Discard, os.Stdin)
	fmt.Printf("COUNTS %d %d\n", handlers.reports.Load(), handlers.unary.Load())
}
