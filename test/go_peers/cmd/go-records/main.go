// go-records reads and writes stored objects with Go's own encoder, as a reader and a writer in Go that
// shares a bucket with us does.
//
//	go-records read BUCKET SHARD     every object of the shard, one JSON line each; exit status 1 when one
//	                                 cannot be read
//	go-records write ID TENANT GROUP an instance record as the Go implementation writes it, to standard output
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"nstance/test/go_peers/internal/lines"
)

func main() {
	arguments := os.Args[1:]
	switch {
	case len(arguments) == 3 && arguments[0] == "read":
		if !readAll(arguments[1], arguments[2]) {
			os.Exit(1)
		}
	case len(arguments) == 4 && arguments[0] == "write":
		if err := write(arguments[1], arguments[2], arguments[3]); err != nil {
			lines.Fail("failed", err, nil)
			os.Exit(1)
		}
	default:
		fmt.Fprintln(os.Stderr, "wrong use; see the head of go-records' main.go")
		os.Exit(2)
	}
}

// write tells of an instance that has registered. The times have a zone and nanoseconds, as time.Now has them.
func write(id, tenant, group string) error {
	now := time.Date(2026, 3, 1, 13, 30, 0, 123456789, time.FixedZone("", 2*3600))
	expires := now.Add(24 * time.Hour)
	return json.NewEncoder(os.Stdout).Encode(Instance{
		InstanceID: id, Tenant: tenant, Group: group, SubnetID: "subnet-1", ProviderInstanceID: "i-0123456789abcdef0",
		InstanceType: "t3.medium", Status: "pending", PrivateIPv4: "10.0.0.7", Hostname: "ip-10-0-0-7",
		CreatedAt: now, LastUpdated: now,
		Config: Config{Args: map[string]any{"ImageId": "ami-1", "Count": 2.5}, Vars: map[string]string{"A": "<x> & y"},
			Files: map[string]any{}, InstanceType: "t3.medium", SubnetPool: "default", Kind: "knc", Arch: "amd64"},
		InfraConfigHash: "sha256:37dc4ae76f163781a1e2debef43b623178f13c21514a960b39757375958d842a",
		RegistrationJWT: "eyJhbGciOiJFZERTQSIsInR5cCI6IkpXVCJ9.e30.c2lnbmF0dXJl",
		RegisteredAt:    &now, PublicKeyPEM: "-----BEGIN PUBLIC KEY-----\n", CertSerial: "1767225600000000000",
		CertExpiresAt: &expires,
	})
}
