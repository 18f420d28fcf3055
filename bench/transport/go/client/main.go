// Command client is one idle agent on grpc-go. Arguments and output as
// bench/transport/client_main.cc.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/bench/transport/pb"
)

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: client FOLDER PORT")
	}
	folder := os.Args[1]
	pair, err := tls.LoadX509KeyPair(filepath.Join(folder, "agent.pem"), filepath.Join(folder, "agent.key"))
	must(err)
	ca, err := os.ReadFile(filepath.Join(folder, "ca.pem"))
	must(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	connection, err := grpc.NewClient("127.0.0.1:"+os.Args[2], grpc.WithTransportCredentials(credentials.NewTLS(
		&tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots, MinVersion: tls.VersionTLS13})))
	must(err)
	client := pb.NewAgentServiceClient(connection)
	background := context.Background()
	_, err = client.SubmitHealthReport(background)
	must(err)
	keys, err := client.ReceiveKeyRequests(background, &emptypb.Empty{})
	must(err)
	go func() { _, err := keys.Recv(); must(err) }()
	files, err := client.ReceiveFiles(background, &emptypb.Empty{})
	must(err)
	go func() { _, err := files.Recv(); must(err) }()
	fmt.Println("READY")
	_, _ = io.Copy(io.Discard, os.Stdin)
}
