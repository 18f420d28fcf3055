package main

import (
	"context"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"nstance/test/go_peers/internal/lines"
	"nstance/test/go_peers/internal/pb"
)

// register waits for a server: UNAVAILABLE is tried again until the time is up.
func register(ctx context.Context, set *settings) error {
	token, err := os.ReadFile(set.tokenFile)
	if err != nil {
		return err
	}
	public, err := set.folder.EnsureKeyPair()
	if err != nil {
		return err
	}
	connection, err := set.folder.Dial(set.registration, nil, 0)
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(ctx, set.timeout)
	defer cancel()
	client := pb.NewRegistrationServiceClient(connection)
	request := &pb.RegisterClientRequest{
		RegistrationNonceJwt: strings.TrimSpace(string(token)),
		PublicKeyPem:         public,
	}
	for {
		answer, err := client.RegisterOperator(ctx, request)
		if err == nil {
			return keep(set, "registered", answer.ClientCertificatePem)
		}
		if status.Code(err) != codes.Unavailable || pause(ctx, 200*time.Millisecond) != nil {
			return err
		}
	}
}

// renew keeps the key, as operators of the Go implementation may.
func renew(ctx context.Context, connection *grpc.ClientConn, set *settings, rest []string) error {
	if len(rest) != 0 {
		return errUsage
	}
	public, err := set.folder.EnsureKeyPair()
	if err != nil {
		return err
	}
	answer, err := pb.NewOperatorServiceClient(connection).RenewCertificate(ctx,
		&pb.RenewCertificateRequest{PublicKeyPem: public})
	if err != nil {
		return err
	}
	return keep(set, "renewed", answer.ClientCertificatePem)
}

func keep(set *settings, event string, certificate []byte) error {
	if err := set.folder.Write("identity.crt", certificate); err != nil {
		return err
	}
	loaded, ok := set.folder.Certificate()
	if !ok {
		return status.Error(codes.Unknown, "the certificate that the server gave does not fit the key")
	}
	lines.Say(event, lines.Fields{
		"client_id":  loaded.Leaf.Subject.CommonName,
		"tenant":     strings.Join(loaded.Leaf.Subject.Organization, ","),
		"serial":     loaded.Leaf.SerialNumber.String(),
		"expires_at": loaded.Leaf.NotAfter.UTC().Format(time.RFC3339),
	})
	return nil
}

func pause(ctx context.Context, length time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(length):
		return nil
	}
}
