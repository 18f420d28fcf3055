// Package identity keeps a client's key pair and certificate in a folder, written as Go writes them,
// and makes gRPC connections with them.
package identity

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
)

// Folder is where an identity lives: identity.key (PKCS#8), identity.pub (SPKI), identity.crt,
// ca.crt.
type Folder struct {
	Path string
	Mode os.FileMode
}

func (f Folder) Name(name string) string { return filepath.Join(f.Path, name) }

// Write replaces a file at once.
func (f Folder) Write(name string, content []byte) error {
	return WriteFile(f.Path, name, content, f.Mode)
}

// WriteFile replaces folder/name by way of a temporary file in the same folder.
func WriteFile(folder, name string, content []byte, mode os.FileMode) error {
	file, err := os.CreateTemp(folder, ".nstance-recv-*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	if _, err := file.Write(content); err != nil {
		file.Close()
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	if err := os.Chmod(file.Name(), mode); err != nil {
		return err
	}
	return os.Rename(file.Name(), filepath.Join(folder, name))
}

// NewKeyPair makes an Ed25519 pair as PEM: PKCS#8 and SPKI.
func NewKeyPair() (private, public []byte, err error) {
	publicKey, privateKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	privateDER, err := x509.MarshalPKCS8PrivateKey(privateKey)
	if err != nil {
		return nil, nil, err
	}
	publicDER, err := x509.MarshalPKIXPublicKey(publicKey)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: privateDER}),
		pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: publicDER}), nil
}

// EnsureKeyPair makes identity.key and identity.pub unless both are there; one alone is an error. It
// answers with the public key's PEM.
func (f Folder) EnsureKeyPair() ([]byte, error) {
	_, keyErr := os.Stat(f.Name("identity.key"))
	public, pubErr := os.ReadFile(f.Name("identity.pub"))
	if keyErr == nil && pubErr == nil {
		return public, nil
	}
	if (keyErr == nil) != (pubErr == nil) {
		return nil, fmt.Errorf("%s: only one of identity.key and identity.pub is there", f.Path)
	}
	private, public, err := NewKeyPair()
	if err != nil {
		return nil, err
	}
	if err := f.Write("identity.key", private); err != nil {
		return nil, err
	}
	return public, f.Write("identity.pub", public)
}

// Certificate is the stored one with its key, if it is there, fits and has not expired.
func (f Folder) Certificate() (tls.Certificate, bool) {
	pair, err := tls.LoadX509KeyPair(f.Name("identity.crt"), f.Name("identity.key"))
	if err != nil || len(pair.Certificate) == 0 {
		return tls.Certificate{}, false
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil || time.Now().After(leaf.NotAfter) {
		return tls.Certificate{}, false
	}
	pair.Leaf = leaf
	return pair, true
}

// Roots is the trust bundle of ca.crt.
func (f Folder) Roots() (*x509.CertPool, error) {
	text, err := os.ReadFile(f.Name("ca.crt"))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, errors.New(f.Name("ca.crt") + ": no certificate")
	}
	return pool, nil
}

// Dial makes a connection to address; certificate nil: shows none. The server's name is the host part.
func (f Folder) Dial(address string, certificate *tls.Certificate, ping time.Duration) (*grpc.ClientConn, error) {
	roots, err := f.Roots()
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}
	if certificate != nil {
		config.Certificates = []tls.Certificate{*certificate}
	}
	options := []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(config))}
	if ping > 0 {
		options = append(options, grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: ping, Timeout: 10 * time.Second, PermitWithoutStream: true}))
	}
	return grpc.NewClient(address, options...)
}
