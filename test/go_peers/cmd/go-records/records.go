package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"nstance/test/go_peers/internal/lines"
)

// Config is the merged configuration that a record keeps.
type Config struct {
	Args         map[string]any    `json:"args"`
	Vars         map[string]string `json:"vars"`
	Files        map[string]any    `json:"files"`
	UserData     json.RawMessage   `json:"userdata,omitempty"`
	InstanceType string            `json:"instance_type"`
	SubnetPool   string            `json:"subnet_pool"`
	Kind         string            `json:"kind"`
	Arch         string            `json:"arch"`
}

// Instance has the members that the Go implementation knows of a record.
type Instance struct {
	InstanceID         string            `json:"instance_id"`
	Tenant             string            `json:"tenant"`
	Group              string            `json:"group"`
	OnDemand           bool              `json:"on_demand"`
	SubnetID           string            `json:"subnet_id"`
	ProviderInstanceID string            `json:"provider_instance_id"`
	InstanceType       string            `json:"instance_type"`
	Status             string            `json:"status"`
	PrivateIPv4        string            `json:"private_ipv4"`
	PrivateIPv6        string            `json:"private_ipv6"`
	Hostname           string            `json:"hostname"`
	CreatedAt          time.Time         `json:"created_at"`
	LastUpdated        time.Time         `json:"last_updated"`
	Config             Config            `json:"config"`
	Tags               map[string]string `json:"tags"`
	InfraConfigHash    string            `json:"infra_config_hash"`
	RegistrationJWT    string            `json:"registration_jwt,omitempty"`
	RegisteredAt       *time.Time        `json:"registered_at,omitempty"`
	PublicKeyPEM       string            `json:"public_key_pem,omitempty"`
	CertSerial         string            `json:"cert_serial,omitempty"`
	CertExpiresAt      *time.Time        `json:"cert_expires_at,omitempty"`
}

// Operator is the record of an operator.
type Operator struct {
	CertSerial   string    `json:"cert_serial"`
	ClientID     string    `json:"client_id"`
	ExpiresAt    time.Time `json:"expires_at"`
	PublicKeyPEM string    `json:"public_key_pem"`
	RegisteredAt time.Time `json:"registered_at"`
	RegisteredBy string    `json:"registered_by"`
	Tenant       string    `json:"tenant"`
}

// CertificateLog is one entry of the log of certificates.
type CertificateLog struct {
	BatchSize    int `json:"batch_size"`
	Certificates []struct {
		Name      string    `json:"certificate_name"`
		Serial    string    `json:"serial_number"`
		ExpiresAt time.Time `json:"expires_at"`
	} `json:"certificates"`
	InstanceID string    `json:"instance_id"`
	IssuedAt   time.Time `json:"issued_at"`
	Tenant     string    `json:"tenant"`
}

// Lease is what a follower reads.
type Lease struct {
	LeaderID    string    `json:"leaderID"`
	LeaderAddr  string    `json:"leaderAddr"`
	LastUpdated time.Time `json:"lastUpdated"`
}

// checkSum: the last member is the SHA-256 of the bytes without it.
func checkSum(text []byte) error {
	at := bytes.LastIndex(text, []byte(`,"checksum":`))
	if at < 0 {
		return errors.New("no checksum")
	}
	var tail struct {
		Checksum string `json:"checksum"`
	}
	if err := json.Unmarshal(append([]byte("{"), text[at+1:]...), &tail); err != nil {
		return err
	}
	sum := sha256.Sum256(append(bytes.Clone(text[:at]), '}'))
	if want := "sha256:" + hex.EncodeToString(sum[:]); want != tail.Checksum {
		return fmt.Errorf("checksum %s, but the bytes have %s", tail.Checksum, want)
	}
	return nil
}

func read[T any](text []byte) (any, error) {
	value := new(T)
	if err := json.Unmarshal(text, value); err != nil {
		return nil, err
	}
	return value, checkSum(text)
}

// readGroups: one line with the stamp, then plain JSON.
func readGroups(text []byte) (any, error) {
	stamp, rest, found := bytes.Cut(text, []byte("\n"))
	if !found || !bytes.HasPrefix(stamp, []byte("// nstance ")) {
		return nil, errors.New("no stamp")
	}
	sum := sha256.Sum256(rest)
	if want := " sha256=" + hex.EncodeToString(sum[:]); !strings.HasSuffix(string(stamp), want) {
		return nil, fmt.Errorf("stamp %q, but the bytes have%s", stamp, want)
	}
	groups := map[string]map[string]struct {
		Template string `json:"template"`
		Size     int    `json:"size"`
	}{}
	return groups, json.Unmarshal(rest, &groups)
}

// readAll tells every object; false when one cannot be read.
func readAll(bucket, shard string) bool {
	good := true
	for _, kind := range []struct {
		name, pattern string
		read          func([]byte) (any, error)
	}{
		{"instance", "instance/" + shard + "/*.json", read[Instance]},
		{"operator", "operator/*.json", read[Operator]},
		{"certlog", "certlog/" + shard + "/*.json", read[CertificateLog]},
		{"lease", "leader/*.json", read[Lease]},
		{"groups", "groups/" + shard + ".jsonc", readGroups},
	} {
		files, _ := filepath.Glob(filepath.Join(bucket, kind.pattern))
		for _, file := range files {
			text, err := os.ReadFile(file)
			var value any
			if err == nil {
				value, err = kind.read(text)
			}
			if err != nil {
				lines.Fail("unreadable", err, lines.Fields{"kind": kind.name, "file": filepath.Base(file)})
				good = false
				continue
			}
			lines.Say("object", lines.Fields{"kind": kind.name, "file": filepath.Base(file), "value": value})
		}
	}
	return good
}
