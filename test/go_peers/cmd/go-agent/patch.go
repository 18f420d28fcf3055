package main

import (
	"bufio"
	"bytes"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"nstance/test/go_peers/internal/identity"
	"nstance/test/go_peers/internal/pb"
)

const (
	marker       = "write-files.last"
	errorsFolder = "errors"
)

var envKey = regexp.MustCompile(`^[A-Z0-9_]+$`)

// Patch gathers files until their commit.
type Patch struct {
	files []*pb.FileTransfer
	hash  string
}

// Take adds one message; true when it was the commit.
func (p *Patch) Take(transfer *pb.FileTransfer) (bool, error) {
	if transfer.ConfigHash != "" {
		if transfer.Filename != "" || len(transfer.Content) > 0 {
			return false, errors.New("a commit carries a file")
		}
		p.hash = transfer.ConfigHash
		return true, nil
	}
	if transfer.Filename == "" {
		return false, errors.New("a file without a name")
	}
	for _, other := range p.files {
		if other.Filename == transfer.Filename {
			return false, fmt.Errorf("%s: sent twice", transfer.Filename)
		}
	}
	p.files = append(p.files, transfer)
	return false, nil
}

// Apply writes all files, or none when one of them is refused.
func (p *Patch) Apply(settings *Settings) ([]string, error) {
	folder := settings.Recv.Path
	if err := os.MkdirAll(filepath.Join(folder, errorsFolder), 0o750); err != nil {
		return nil, err
	}
	names := []string{}
	var refused error
	for _, file := range p.files {
		if err := checkFile(file.Filename, file.Content); err != nil {
			refused = errors.Join(refused, fmt.Errorf("%s: %w", file.Filename, err))
			if base(file.Filename) {
				identity.WriteFile(filepath.Join(folder, errorsFolder), file.Filename, []byte(err.Error()), settings.Recv.Mode)
			}
		}
		names = append(names, file.Filename)
	}
	if refused != nil {
		return nil, refused
	}
	for _, file := range p.files {
		if err := settings.Recv.Write(file.Filename, file.Content); err != nil {
			return nil, err
		}
		if file.LastModified != nil {
			when := file.LastModified.AsTime()
			os.Chtimes(filepath.Join(folder, file.Filename), when, when)
		}
		os.Remove(filepath.Join(folder, errorsFolder, file.Filename))
	}
	if err := settings.Identity.Write("config.hash", []byte(p.hash)); err != nil {
		return nil, err
	}
	return names, settings.Recv.Write(marker, []byte(strconv.FormatInt(time.Now().UnixMilli(), 10)))
}

func base(name string) bool {
	return name != "" && name == filepath.Base(name) && name[0] != '.' && name != marker && name != errorsFolder
}

// checkFile also refuses extensions that the Go implementation does not know.
func checkFile(name string, content []byte) error {
	if !base(name) {
		return errors.New("not a base name")
	}
	switch strings.ToLower(filepath.Ext(name)) {
	case ".env":
		return checkEnv(content)
	case ".json":
		if !json.Valid(content) {
			return errors.New("not valid JSON")
		}
		return nil
	case ".crt":
		return checkPEM(content, "CERTIFICATE", func(der []byte) error {
			_, err := x509.ParseCertificate(der)
			return err
		})
	case ".pub":
		return checkPEM(content, "PUBLIC KEY", func(der []byte) error {
			_, err := x509.ParsePKIXPublicKey(der)
			return err
		})
	case ".key":
		return checkPEM(content, "PRIVATE KEY", func(der []byte) error {
			_, err := x509.ParsePKCS8PrivateKey(der)
			return err
		})
	}
	return fmt.Errorf("unsupported file type %q", filepath.Ext(name))
}

func checkEnv(content []byte) error {
	scanner := bufio.NewScanner(bytes.NewReader(content))
	scanner.Buffer(nil, 4<<20)
	for scanner.Scan() {
		line := strings.TrimSpace(scanner.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		key, _, found := strings.Cut(line, "=")
		if !found || !envKey.MatchString(key) {
			return fmt.Errorf("not KEY=value: %q", line)
		}
	}
	return scanner.Err()
}

func checkPEM(content []byte, kind string, parse func([]byte) error) error {
	block, _ := pem.Decode(content)
	if block == nil || block.Type != kind {
		return fmt.Errorf("the first PEM block is no %s", kind)
	}
	return parse(block.Bytes)
}
