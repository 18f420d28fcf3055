package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"nstance/test/go_peers/internal/lines"
	"nstance/test/go_peers/internal/pb"
)

type claims struct {
	Subject    string `json:"sub"`
	ExpiresAt  int64  `json:"exp"`
	NotBefore  int64  `json:"nbf"`
	IssuedAt   int64  `json:"iat"`
	ConfigHash string `json:"config_hash"`
}

// readClaims does not verify the token, but gives up on one from the future or the past, without any
// leeway.
func readClaims(token string, now int64) (*claims, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil, errors.New("nonce.jwt: not a compact JWS")
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil, fmt.Errorf("nonce.jwt: %w", err)
	}
	read := &claims{}
	if err := json.Unmarshal(payload, read); err != nil {
		return nil, fmt.Errorf("nonce.jwt: %w", err)
	}
	switch {
	case now >= read.ExpiresAt:
		return nil, errors.New("nonce.jwt: expired")
	case now < read.NotBefore:
		return nil, errors.New("nonce.jwt: not valid yet")
	case now < read.IssuedAt:
		return nil, errors.New("nonce.jwt: issued in the future")
	}
	return read, nil
}

// Register exchanges the token for a certificate, once: an error is the service manager's business.
func Register(ctx context.Context, settings *Settings, public []byte) error {
	raw, err := os.ReadFile(settings.Identity.Name("nonce.jwt"))
	if err != nil {
		return err
	}
	token := strings.TrimSpace(string(raw))
	read, err := readClaims(token, time.Now().Unix())
	if err != nil {
		return err
	}
	if read.Subject != settings.InstanceID {
		return fmt.Errorf("nonce.jwt is for %q, not for %q", read.Subject, settings.InstanceID)
	}
	if err := settings.Identity.Write("config.hash", []byte(read.ConfigHash)); err != nil {
		return err
	}
	connection, err := settings.Identity.Dial(settings.RegistrationAddr, nil, 0)
	if err != nil {
		return err
	}
	defer connection.Close()
	limited, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	answer, err := pb.NewRegistrationServiceClient(connection).RegisterAgent(limited, &pb.RegisterClientRequest{
		RegistrationNonceJwt: token,
		PublicKeyPem:         public,
		PrivateIpv4:          settings.IPv4,
		PrivateIpv6:          settings.IPv6,
		Hostname:             settings.Hostname,
	})
	if err != nil {
		return err
	}
	if err := settings.Identity.Write("identity.crt", answer.ClientCertificatePem); err != nil {
		return err
	}
	lines.Say("registered", lines.Fields{
		"instance_id": settings.InstanceID,
		"config_hash": read.ConfigHash,
		"expires_at":  answer.ExpiresAt.AsTime().Format(time.RFC3339Nano),
	})
	return os.Remove(settings.Identity.Name("nonce.jwt"))
}
