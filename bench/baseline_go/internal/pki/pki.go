// Package pki holds the authority, the tokens and the rules for client certificates.
package pki

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"time"
)

var roleOID = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 999999, 1}

// Authority signs; its roots are what clients are checked against.
type Authority struct {
	Certificate *x509.Certificate
	PEM         []byte
	Roots       *x509.CertPool
	key         ed25519.PrivateKey
	Tokens      ed25519.PrivateKey // Signs registration tokens.
	ClusterID   string
}

// NewAuthority makes a cluster's authority and token key.
func NewAuthority(cluster string) (*Authority, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	_, tokens, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{Country: []string{"US"}, Organization: []string{"Nstance Cluster " + cluster}, CommonName: "Nstance CA"},
		NotBefore:             time.Now().Add(-5 * time.Minute),
		NotAfter:              time.Now().Add(87600 * time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLen:            1,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(certificate)
	return &Authority{Certificate: certificate, PEM: encode(der), Roots: roots, key: private, Tokens: tokens, ClusterID: cluster}, nil
}

func encode(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// Serial is 16 random bytes, positive.
func Serial() (*big.Int, error) {
	raw := make([]byte, 16)
	if _, err := rand.Read(raw); err != nil {
		return nil, err
	}
	raw[0] &= 0x7f
	raw[15] |= 1
	return new(big.Int).SetBytes(raw), nil
}

// Client is what a client certificate says.
type Client struct {
	Role    string // "agent" or "operator"
	ID      string
	Tenant  string
	Serial  *big.Int
	Issued  time.Time
	Expires time.Time
}

// SignClient makes a client's certificate; the same arguments give the same bytes.
func (a *Authority) SignClient(client Client, key ed25519.PublicKey) ([]byte, error) {
	role, err := asn1.MarshalWithParams(client.Role, "printable")
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber:          client.Serial,
		Subject:               pkix.Name{Organization: []string{client.Tenant}, CommonName: client.ID},
		NotBefore:             client.Issued.Add(-5 * time.Minute),
		NotAfter:              client.Expires,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
		SubjectKeyId:          keyID(key),
		ExtraExtensions:       []pkix.Extension{{Id: roleOID, Value: role}},
	}, a.Certificate, key, a.key)
	if err != nil {
		return nil, err
	}
	return encode(der), nil
}

func keyID(key ed25519.PublicKey) []byte {
	sum := sha256.Sum256(key)
	return sum[:20]
}

// ServerCertificate is for these hosts besides the fixed names.
func (a *Authority) ServerCertificate(hosts []string) (tls.Certificate, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	serial, err := Serial()
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{Organization: []string{"Nstance Server"}, CommonName: "nstance-server"},
		NotBefore:             time.Now().Add(-5 * time.Minute),
		NotAfter:              time.Now().Add(8760 * time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		DNSNames:              []string{"nstance-server", "localhost"},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	for _, host := range hosts {
		if address := net.ParseIP(host); address != nil && !address.IsUnspecified() {
			template.IPAddresses = append(template.IPAddresses, address)
		} else if address == nil && host != "" {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.Certificate, public, a.key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, nil
}

// Identity is who calls: the rules on the subject and the role extension.
func Identity(leaf *x509.Certificate) (Client, error) {
	client := Client{ID: leaf.Subject.CommonName, Serial: leaf.SerialNumber, Expires: leaf.NotAfter}
	if client.ID == "" || len(leaf.Subject.Organization) != 1 {
		return client, errors.New("the certificate needs one CN and one O")
	}
	if _, ok := leaf.PublicKey.(ed25519.PublicKey); !ok || leaf.IsCA {
		return client, errors.New("the certificate is no Ed25519 leaf")
	}
	client.Tenant = leaf.Subject.Organization[0]
	for _, extension := range leaf.Extensions {
		if !extension.Id.Equal(roleOID) {
			continue
		}
		if client.Role != "" {
			return client, errors.New("the certificate has two roles")
		}
		role, err := parseRole(extension.Value)
		if err != nil {
			return client, err
		}
		client.Role = role
	}
	if client.Role != "agent" && client.Role != "operator" {
		return client, errors.New("the certificate has no known role")
	}
	return client, nil
}

func parseRole(der []byte) (string, error) {
	for _, role := range []string{"agent", "operator"} {
		if bytes.Equal(der, append([]byte{0x13, byte(len(role))}, role...)) {
			return role, nil
		}
	}
	return "", errors.New("the role is not a known PrintableString")
}

// ParsePublicKey accepts one PEM `PUBLIC KEY` with an Ed25519 key.
func ParsePublicKey(text []byte) (ed25519.PublicKey, []byte, error) {
	block, rest := pem.Decode(text)
	if block == nil || block.Type != "PUBLIC KEY" || len(bytes.TrimSpace(rest)) != 0 {
		return nil, nil, errors.New("public_key_pem: not one PEM PUBLIC KEY")
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, nil, errors.New("public_key_pem: not an SPKI")
	}
	key, ok := parsed.(ed25519.PublicKey)
	if !ok {
		return nil, nil, errors.New("public_key_pem: not an Ed25519 key")
	}
	return key, block.Bytes, nil
}
