// The peer of our config hashes: Go's encoder over structs with the tags of the Go implementation.
// One merged configuration per line in, "<runtime hash> <infra hash>" out.
package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

type fileKey struct {
	Source string `json:"source"`
	Name   string `json:"name"`
}

type file struct {
	Kind     string   `json:"kind"`
	Source   string   `json:"source,omitempty"`
	Template any      `json:"template,omitempty"`
	Key      *fileKey `json:"key,omitempty"`
}

type userData struct {
	Source   string `json:"source,omitempty"`
	Encoding string `json:"encoding,omitempty"`
	Content  string `json:"content"`
	SHA256   string `json:"sha256,omitempty"`
}

type runtimeConfig struct {
	Vars  map[string]string `json:"vars"`
	Files map[string]file   `json:"files"`
}

type infraConfig struct {
	Args         map[string]any `json:"args"`
	InstanceType string         `json:"instance_type"`
	SubnetPool   string         `json:"subnet_pool"`
	Userdata     *userData      `json:"userdata,omitempty"`
	Kind         string         `json:"kind"`
	Arch         string         `json:"arch"`
}

func hash(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return "error"
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(text))
}

func answer(line []byte) string {
	var runtime runtimeConfig
	var infra infraConfig
	if json.Unmarshal(line, &runtime) != nil || json.Unmarshal(line, &infra) != nil {
		return "error"
	}
	return hash(runtime) + " " + hash(infra)
}

func main() {
	in := bufio.NewReader(os.Stdin)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for {
		line, err := in.ReadBytes('\n')
		if err == io.EOF && len(line) == 0 {
			return
		}
		fmt.Fprintln(out, answer(line))
	}
}
