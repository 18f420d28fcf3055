package main

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math/big"
	"net/netip"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance/bench/baseline_go/internal/pb"
	"nstance/bench/baseline_go/internal/pki"
	"nstance/bench/baseline_go/internal/store"
	"nstance/bench/baseline_go/internal/table"
)

const maxJoining = 128

var errRefused = status.Error(codes.Unauthenticated, "registration refused")

type registrationService struct {
	pb.UnimplementedRegistrationServiceServer
	*server
}

// joiner is what both kinds of registration have checked.
type joiner struct {
	claims *pki.Claims
	key    ed25519.PublicKey
	spki   []byte
}

func (r *registrationService) check(request *pb.RegisterClientRequest, kind string) (*joiner, error) {
	if len(request.RegistrationNonceJwt) > 4096 || len(request.PublicKeyPem) > 4096 {
		return nil, status.Error(codes.InvalidArgument, "registration_nonce_jwt and public_key_pem: at most 4096 bytes")
	}
	claims, err := r.authority.VerifyToken(request.RegistrationNonceJwt, kind, time.Now())
	if err != nil {
		return nil, errRefused
	}
	if claims.ClusterID != r.options.cluster || (kind == "agent" && claims.Shard != r.options.shard) {
		return nil, status.Error(codes.InvalidArgument, "the token is for another cluster or shard")
	}
	key, spki, err := pki.ParsePublicKey(request.PublicKeyPem)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if len(request.Proof) > 0 && !pki.VerifyProof(request.RegistrationNonceJwt, r.options.cluster, key, spki, request.Proof) {
		return nil, errRefused
	}
	return &joiner{claims: claims, key: key, spki: spki}, nil
}

// own makes the key belong to one identity.
func (r *registrationService) own(spki []byte, identity string) bool {
	sum := sha256.Sum256(spki)
	owner, _ := r.keyOwners.LoadOrStore(sum, identity)
	return owner == identity
}

// RegisterAgent: one compare-and-swap of the record, one entry of the certificate log, one signature.
func (r *registrationService) RegisterAgent(ctx context.Context, request *pb.RegisterClientRequest) (*pb.RegisterClientResponse, error) {
	if r.joining.Add(1) > maxJoining {
		r.joining.Add(-1)
		return nil, status.Error(codes.Unavailable, "too many registrations")
	}
	defer r.joining.Add(-1)
	join, err := r.check(request, "agent")
	if err != nil {
		return nil, err
	}
	if !addressOK(request.PrivateIpv4) || !addressOK(request.PrivateIpv6) || len(request.Hostname) > 253 {
		return nil, status.Error(codes.InvalidArgument, "private_ipv4, private_ipv6 or hostname is malformed")
	}
	instance := r.table.Find(join.claims.Tenant, join.claims.Subject)
	if instance == nil || !r.own(join.spki, join.claims.Subject) {
		return nil, errRefused
	}
	serial, err := pki.Serial()
	if err != nil {
		return nil, status.Error(codes.Internal, "no randomness")
	}
	record, err := r.table.Change(ctx, instance, func(record *table.Record) error {
		return consume(record, request, serial.String())
	})
	again := errors.Is(err, errAgain)
	if err != nil && !again {
		if errors.Is(err, errRefused) {
			return nil, errRefused
		}
		return nil, r.storeStatus(err)
	}
	if !again {
		if err := r.table.LogCertificate(ctx, record.Tenant, record.InstanceID, "agent", record.CertSerial, *record.CertIssuedAt, *record.CertExpiresAt); err != nil {
			return nil, r.storeStatus(err)
		}
	}
	signed, ok := new(big.Int).SetString(record.CertSerial, 10)
	if !ok {
		return nil, status.Error(codes.Internal, "the record has no serial")
	}
	certificate, err := r.authority.SignClient(pki.Client{Role: "agent", ID: record.InstanceID, Tenant: record.Tenant,
		Serial: signed, Issued: *record.CertIssuedAt, Expires: *record.CertExpiresAt}, join.key)
	if err != nil {
		return nil, status.Error(codes.Internal, "signing failed")
	}
	r.counters.joins.Add(1)
	return &pb.RegisterClientResponse{ClientCertificatePem: certificate, ExpiresAt: timestamppb.New(*record.CertExpiresAt)}, nil
}

var errAgain = errors.New("registered with this key already")

// consume uses the token up, bound to the key.
func consume(record *table.Record, request *pb.RegisterClientRequest, serial string) error {
	hash := pki.HashToken(request.RegistrationNonceJwt)
	if subtle.ConstantTimeCompare([]byte(hash), []byte(record.NonceSHA256)) != 1 {
		return errRefused
	}
	switch record.Phase {
	case "creating", "provisioned":
	case "registered":
		if record.PublicKeyPEM == string(request.PublicKeyPem) {
			return errAgain
		}
		return errRefused
	default:
		return errRefused
	}
	now := time.Now().UTC().Truncate(time.Second)
	expires := now.Add(agentLife)
	record.Phase, record.RegisteredAt = "registered", &now
	record.PublicKeyPEM, record.CertSerial = string(request.PublicKeyPem), serial
	record.CertIssuedAt, record.CertExpiresAt = &now, &expires
	if request.PrivateIpv4 != "" {
		record.PrivateIPv4 = request.PrivateIpv4
	}
	if request.PrivateIpv6 != "" {
		record.PrivateIPv6 = request.PrivateIpv6
	}
	if request.Hostname != "" {
		record.Hostname = request.Hostname
	}
	return nil
}

func addressOK(text string) bool {
	if text == "" {
		return true
	}
	address, err := netip.ParseAddr(text)
	return err == nil && !address.IsUnspecified() && !address.IsMulticast() && !address.IsLinkLocalUnicast() && !address.Is4In6()
}

type operatorRecord struct {
	CertSerial   string    `json:"cert_serial"`
	ClientID     string    `json:"client_id"`
	ExpiresAt    time.Time `json:"expires_at"`
	PublicKeyPEM string    `json:"public_key_pem"`
	RegisteredAt time.Time `json:"registered_at"`
	Tenant       string    `json:"tenant"`
	WriteID      string    `json:"write_id"`
}

// RegisterOperator: the nonce object is created, bound to the key, then the operator's.
func (r *registrationService) RegisterOperator(ctx context.Context, request *pb.RegisterClientRequest) (*pb.RegisterClientResponse, error) {
	join, err := r.check(request, "operator")
	if err != nil {
		return nil, err
	}
	if join.claims.Subject != r.options.cluster {
		return nil, status.Error(codes.InvalidArgument, "the token is for another cluster")
	}
	if !r.tenants[join.claims.Tenant] {
		return nil, status.Error(codes.FailedPrecondition, "the tenant is not defined")
	}
	nonce := "operator-nonce/" + pki.HashToken(request.RegistrationNonceJwt) + ".pem"
	_, err = r.table.Store.Put(ctx, nonce, request.PublicKeyPem, store.Condition{CreateOnly: true})
	if errors.Is(err, store.ErrConflict) {
		bound, _, readErr := r.table.Store.Get(ctx, nonce)
		if readErr != nil {
			return nil, r.storeStatus(readErr)
		}
		if string(bound) != string(request.PublicKeyPem) {
			return nil, errRefused
		}
	} else if err != nil {
		return nil, r.storeStatus(err)
	}
	sum := sha256.Sum256(join.spki)
	key := "operator/" + join.claims.Tenant + "." + hex.EncodeToString(sum[:])[:32] + ".json"
	return r.issueOperator(ctx, key, join, request.PublicKeyPem)
}

func (r *registrationService) issueOperator(ctx context.Context, key string, join *joiner, public []byte) (*pb.RegisterClientResponse, error) {
	serial, err := pki.Serial()
	if err != nil {
		return nil, status.Error(codes.Internal, "no randomness")
	}
	now := time.Now().UTC().Truncate(time.Second)
	record := operatorRecord{CertSerial: serial.String(), ClientID: r.options.cluster, ExpiresAt: now.Add(operatorLife),
		PublicKeyPEM: string(public), RegisteredAt: now, Tenant: join.claims.Tenant, WriteID: table.WriteID()}
	content, err := json.Marshal(record)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	_, err = r.table.Store.Put(ctx, key, content, store.Condition{CreateOnly: true})
	again := errors.Is(err, store.ErrConflict)
	if again {
		stored, _, readErr := r.table.Store.Get(ctx, key)
		if readErr != nil || json.Unmarshal(stored, &record) != nil {
			return nil, r.storeStatus(readErr)
		}
	} else if err != nil {
		return nil, r.storeStatus(err)
	}
	if !again {
		if err := r.table.LogCertificate(ctx, record.Tenant, record.ClientID, "operator", record.CertSerial, record.RegisteredAt, record.ExpiresAt); err != nil {
			return nil, r.storeStatus(err)
		}
	}
	number, ok := new(big.Int).SetString(record.CertSerial, 10)
	if !ok {
		return nil, status.Error(codes.Internal, "the record has no serial")
	}
	certificate, err := r.authority.SignClient(pki.Client{Role: "operator", ID: record.ClientID, Tenant: record.Tenant,
		Serial: number, Issued: record.RegisteredAt, Expires: record.ExpiresAt}, join.key)
	if err != nil {
		return nil, status.Error(codes.Internal, "signing failed")
	}
	r.counters.joins.Add(1)
	return &pb.RegisterClientResponse{ClientCertificatePem: certificate, ExpiresAt: timestamppb.New(record.ExpiresAt)}, nil
}
