// The peer of our certificates and tokens: Go's standard library. One JSON request per line, one JSON
// answer per line.
//
//	go_crypto verify   verifies a certificate with crypto/x509 and tells what it says
//	go_crypto issue    makes certificates the way the Go implementation does
//	go_crypto name     the DER bytes of a subject, as hex
//	go_crypto sign     signs registration claims, a struct in the order of the format
//	go_crypto check    verifies a token and writes its claims again
package main

import (
	"bufio"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"strings"
	"time"
)

var roleOID = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 999999, 1}

func parseCertificate(text string) (*x509.Certificate, error) {
	block, rest := pem.Decode([]byte(text))
	if block == nil || block.Type != "CERTIFICATE" || len(rest) != 0 {
		return nil, errors.New("not one PEM certificate")
	}
	return x509.ParseCertificate(block.Bytes)
}

func parseKey(text string) (ed25519.PrivateKey, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("no PEM key")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	private, ok := key.(ed25519.PrivateKey)
	if !ok {
		return nil, errors.New("not an Ed25519 key")
	}
	return private, nil
}

func encode(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

type verifyRequest struct {
	Roots []string `json:"roots"`
	Leaf  string   `json:"leaf"`
	Usage string   `json:"usage"`
	DNS   string   `json:"dns"`
	Now   int64    `json:"now"`
}

type verifyAnswer struct {
	Error     string   `json:"error"`
	Serial    string   `json:"serial"`
	Subject   string   `json:"subject"`
	DNS       []string `json:"dns"`
	IP        []string `json:"ip"`
	URI       []string `json:"uri"`
	IsCA      bool     `json:"is_ca"`
	PathLen   int      `json:"path_len"`
	KeyUsage  int      `json:"key_usage"`
	ExtUsage  []int    `json:"ext_usage"`
	NotBefore int64    `json:"not_before"`
	NotAfter  int64    `json:"not_after"`
	SKI       string   `json:"ski"`
	AKI       string   `json:"aki"`
	Role      string   `json:"role"`
	Critical  []string `json:"critical"`
}

func describe(leaf *x509.Certificate) verifyAnswer {
	answer := verifyAnswer{
		Serial: leaf.SerialNumber.String(), Subject: leaf.Subject.String(),
		DNS: append([]string{}, leaf.DNSNames...), IP: []string{}, URI: []string{}, ExtUsage: []int{},
		IsCA: leaf.IsCA, PathLen: leaf.MaxPathLen, KeyUsage: int(leaf.KeyUsage),
		NotBefore: leaf.NotBefore.Unix(), NotAfter: leaf.NotAfter.Unix(),
		SKI: hex.EncodeToString(leaf.SubjectKeyId), AKI: hex.EncodeToString(leaf.AuthorityKeyId),
		Critical: []string{},
	}
	for _, ip := range leaf.IPAddresses {
		answer.IP = append(answer.IP, ip.String())
	}
	for _, uri := range leaf.URIs {
		answer.URI = append(answer.URI, uri.String())
	}
	for _, usage := range leaf.ExtKeyUsage {
		answer.ExtUsage = append(answer.ExtUsage, int(usage))
	}
	for _, extension := range leaf.Extensions {
		if extension.Critical {
			answer.Critical = append(answer.Critical, extension.Id.String())
		}
		if extension.Id.Equal(roleOID) {
			answer.Role = hex.EncodeToString(extension.Value)
		}
	}
	return answer
}

func verify(request verifyRequest) (any, error) {
	leaf, err := parseCertificate(request.Leaf)
	if err != nil {
		return nil, err
	}
	answer := describe(leaf)
	usages := map[string]x509.ExtKeyUsage{"client": x509.ExtKeyUsageClientAuth, "server": x509.ExtKeyUsageServerAuth}
	options := x509.VerifyOptions{
		Roots: x509.NewCertPool(), CurrentTime: time.Unix(request.Now, 0), DNSName: request.DNS,
		KeyUsages: []x509.ExtKeyUsage{usages[request.Usage]},
	}
	for _, root := range request.Roots {
		certificate, err := parseCertificate(root)
		if err != nil {
			return nil, err
		}
		options.Roots.AddCert(certificate)
	}
	if _, err := leaf.Verify(options); err != nil {
		answer.Error = err.Error()
	}
	return answer, nil
}

type issueRequest struct {
	CA     string `json:"ca"`   // Empty: a new one.
	Key    string `json:"key"`  // Of the CA.
	Role   string `json:"role"` // agent or operator
	Tenant string `json:"tenant"`
	CN     string `json:"cn"`
	Now    int64  `json:"now"`
	Hours  int64  `json:"hours"`
}

type issueAnswer struct {
	CA   string `json:"ca"`
	Key  string `json:"key"`
	Leaf string `json:"leaf"`
}

// As the Go implementation does: empty strings in the subject, crypto/x509's own key identifier.
func newAuthority(now time.Time) (*x509.Certificate, ed25519.PrivateKey, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject: pkix.Name{
			Country: []string{"US"}, Organization: []string{"Nstance Cluster Unknown"}, Province: []string{""},
			Locality: []string{""}, StreetAddress: []string{""}, PostalCode: []string{""}, CommonName: "Nstance CA",
		},
		NotBefore: now, NotAfter: now.Add(87600 * time.Hour), IsCA: true, BasicConstraintsValid: true, MaxPathLen: 1,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		return nil, nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	return certificate, private, err
}

func issue(request issueRequest) (any, error) {
	now := time.Unix(request.Now, 0)
	authority, key, err := newAuthority(now)
	if err != nil {
		return nil, err
	}
	if request.CA != "" {
		if authority, err = parseCertificate(request.CA); err != nil {
			return nil, err
		}
		if key, err = parseKey(request.Key); err != nil {
			return nil, err
		}
	}
	role, err := asn1.MarshalWithParams(request.Role, "printable")
	if err != nil {
		return nil, err
	}
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      pkix.Name{Organization: []string{request.Tenant}, CommonName: request.CN},
		NotBefore:    now, NotAfter: now.Add(time.Duration(request.Hours) * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true, ExtraExtensions: []pkix.Extension{{Id: roleOID, Value: role}},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority, public, key)
	if err != nil {
		return nil, err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return issueAnswer{encode("CERTIFICATE", authority.Raw), encode("PRIVATE KEY", pkcs8), encode("CERTIFICATE", der)}, nil
}

type nameRequest struct {
	Country, Organization, Locality, Province, Street, PostalCode []string
	CN                                                            string
}

func name(request nameRequest) (any, error) {
	der, err := asn1.Marshal(pkix.Name{
		Country: request.Country, Organization: request.Organization, Locality: request.Locality,
		Province: request.Province, StreetAddress: request.Street, PostalCode: request.PostalCode,
		CommonName: request.CN,
	}.ToRDNSequence())
	return hex.EncodeToString(der), err
}

type claims struct {
	Issuer     string `json:"iss"`
	Subject    string `json:"sub"`
	Expires    int64  `json:"exp"`
	NotBefore  int64  `json:"nbf"`
	IssuedAt   int64  `json:"iat"`
	ID         string `json:"jti"`
	Kind       string `json:"kind"`
	ConfigHash string `json:"config_hash"`
	ClusterID  string `json:"cluster_id"`
	Shard      string `json:"shard"`
	Group      string `json:"group"`
	OnDemand   bool   `json:"on_demand"`
	Tenant     string `json:"tenant"`
}

type tokenRequest struct {
	Seed   string `json:"seed"`
	Claims claims `json:"claims"`
	Token  string `json:"token"`
}

func (request tokenRequest) privateKey() (ed25519.PrivateKey, error) {
	seed, err := hex.DecodeString(request.Seed)
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, errors.New("bad seed")
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

func sign(request tokenRequest) (any, error) {
	key, err := request.privateKey()
	if err != nil {
		return nil, err
	}
	header, err := json.Marshal(map[string]string{"typ": "JWT", "alg": "EdDSA"})
	if err != nil {
		return nil, err
	}
	payload, err := json.Marshal(request.Claims)
	if err != nil {
		return nil, err
	}
	text := base64.RawURLEncoding.EncodeToString(header) + "." + base64.RawURLEncoding.EncodeToString(payload)
	return text + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, []byte(text))), nil
}

func check(request tokenRequest) (any, error) {
	key, err := request.privateKey()
	if err != nil {
		return nil, err
	}
	parts := strings.Split(request.Token, ".")
	if len(parts) != 3 {
		return nil, errors.New("not three segments")
	}
	signature, err := base64.RawURLEncoding.Strict().DecodeString(parts[2])
	if err != nil {
		return nil, err
	}
	if !ed25519.Verify(key.Public().(ed25519.PublicKey), []byte(parts[0]+"."+parts[1]), signature) {
		return nil, errors.New("wrong signature")
	}
	payload, err := base64.RawURLEncoding.Strict().DecodeString(parts[1])
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(strings.NewReader(string(payload)))
	decoder.DisallowUnknownFields()
	var read claims
	if err := decoder.Decode(&read); err != nil {
		return nil, err
	}
	return read, nil
}

// Answers one request: the value, or {"error": ...}.
func answer[T any](handle func(T) (any, error)) func([]byte) any {
	return func(line []byte) any {
		var request T
		if err := json.Unmarshal(line, &request); err != nil {
			return map[string]string{"error": err.Error()}
		}
		value, err := handle(request)
		if err != nil {
			return map[string]string{"error": err.Error()}
		}
		return value
	}
}

func main() {
	modes := map[string]func([]byte) any{
		"verify": answer(verify), "issue": answer(issue), "name": answer(name), "sign": answer(sign), "check": answer(check),
	}
	if len(os.Args) != 2 || modes[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: go_crypto verify|issue|name|sign|check")
		os.Exit(2)
	}
	input := bufio.NewScanner(os.Stdin)
	input.Buffer(make([]byte, 1<<20), 1<<20)
	output := bufio.NewWriter(os.Stdout)
	defer output.Flush()
	for input.Scan() {
		text, err := json.Marshal(modes[os.Args[1]](input.Bytes()))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Fprintf(output, "%s\n", text)
	}
}
