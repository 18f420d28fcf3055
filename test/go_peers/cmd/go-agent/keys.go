package main

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"

	"nstance/test/go_peers/internal/identity"
)

// PublicKeyFor makes the pair `name` unless both halves are there, and answers with what is sent: the
// standard base64 of the SPKI's DER.
func PublicKeyFor(folder identity.Folder, name string) ([]byte, error) {
	if name == "" || name != filepath.Base(name) || name[0] == '.' {
		return nil, fmt.Errorf("key name %q is not a base name", name)
	}
	_, keyErr := os.Stat(folder.Name(name + ".key"))
	public, pubErr := os.ReadFile(folder.Name(name + ".pub"))
	if keyErr != nil || pubErr != nil {
		private, made, err := identity.NewKeyPair()
		if err != nil {
			return nil, err
		}
		if err := folder.Write(name+".key", private); err != nil {
			return nil, err
		}
		if err := folder.Write(name+".pub", made); err != nil {
			return nil, err
		}
		public = made
	}
	block, _ := pem.Decode(public)
	if block == nil || block.Type != "PUBLIC KEY" {
		return nil, fmt.Errorf("%s.pub: no PEM public key", name)
	}
	return []byte(base64.StdEncoding.EncodeToString(block.Bytes)), nil
}
