// The peer of our configuration loader, for the benchmark: the same kind of work with Go's standard library.
// Comments and trailing commas are blanked, encoding/json decodes into structs and refuses unknown keys,
// defaults are set, names, ranges and references are checked.
//
//	go_config <iterations> < file    nanoseconds of CPU time for that many loads, on one line
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

type duration time.Duration

func (d *duration) UnmarshalJSON(text []byte) error {
	if string(text) == "0" {
		*d = 0
		return nil
	}
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	// time.ParseDuration has no days.
	var days time.Duration
	if i := strings.IndexByte(s, 'd'); i >= 0 {
		n, err := strconv.ParseInt(s[:i], 10, 32)
		if err != nil {
			return err
		}
		days, s = time.Duration(n)*24*time.Hour, s[i+1:]
		if s == "" {
			s = "0s"
		}
	}
	rest, err := time.ParseDuration(s)
	if err != nil {
		return err
	}
	if rest < 0 {
		return fmt.Errorf("%q is negative", s)
	}
	*d = duration(days + rest)
	return nil
}

type addresses struct {
	Health       string `json:"health_addr"`
	Election     string `json:"election_addr"`
	Registration string `json:"registration_addr"`
	Operator     string `json:"operator_addr"`
	Agent        string `json:"agent_addr"`
}

type encryptionKey struct {
	Provider  string `json:"provider"`
	Source    string `json:"source"`
	ProjectID string `json:"project_id"`
}

type userdata struct {
	Source   string          `json:"source"`
	Encoding string          `json:"encoding"`
	Content  json.RawMessage `json:"content"`
	SHA256   string          `json:"sha256"`
}

type expiry struct {
	Eligible duration `json:"eligible_age"`
	Forced   duration `json:"forced_age"`
	Ondemand duration `json:"ondemand_age"`
}

type server struct {
	ClusterID string `json:"cluster_id"`
	Shard     string `json:"shard"`
	Provider  struct {
		Kind    string         `json:"kind"`
		Region  string         `json:"region"`
		Zone    string         `json:"zone"`
		Options map[string]any `json:"options"`
	} `json:"provider"`
	Bind      addresses `json:"bind"`
	Advertise addresses `json:"advertise"`

	SubnetPools        map[string][]string `json:"subnet_pools"`
	DynamicSubnetPools []string            `json:"dynamic_subnet_pools"`
	Secrets            struct {
		Provider      string          `json:"provider"`
		Prefix        string          `json:"prefix"`
		ProjectID     string          `json:"project_id"`
		EncryptionKey *encryptionKey  `json:"encryption_key"`
		OldKeys       []encryptionKey `json:"old_encryption_keys"`
		CacheTTL      duration        `json:"cache_ttl"`
	} `json:"secrets"`
	LeaderElection struct {
		Renew duration `json:"renew_interval"`
		Lease duration `json:"lease_timeout"`
	} `json:"leader_election"`
	StoreTimeout      duration `json:"store_timeout"`
	RequestTimeout    duration `json:"request_timeout"`
	CreateRateLimit   duration `json:"create_rate_limit"`
	CreateConcurrency int      `json:"create_concurrency"`
	HealthCheck       duration `json:"health_check_interval"`
	DrainTimeout      duration `json:"default_drain_timeout"`
	ImageRefresh      duration `json:"image_refresh_interval"`
	ShutdownTimeout   duration `json:"shutdown_timeout"`
	GC                struct {
		Interval     duration `json:"interval"`
		Registration duration `json:"registration_timeout"`
		Retention    duration `json:"deleted_record_retention"`
		OrphanGrace  duration `json:"orphan_grace"`
		CertLog      duration `json:"certlog_retention"`
	} `json:"garbage_collection"`
	Expiry expiry `json:"expiry"`
}

type certificate struct {
	Kind         string   `json:"kind"`
	CN           string   `json:"cn"`
	Organization []string `json:"organization"`
	DNS          []string `json:"dns"`
	IP           []string `json:"ip"`
	URI          []string `json:"uri"`
	TTL          int      `json:"ttl"`
}

type file struct {
	Kind     string          `json:"kind"`
	Source   string          `json:"source"`
	Template json.RawMessage `json:"template"`
	Key      *struct {
		Source string `json:"source"`
		Name   string `json:"name"`
	} `json:"key"`
}

type template struct {
	Kind         string            `json:"kind"`
	Arch         string            `json:"arch"`
	Files        map[string]file   `json:"files"`
	Args         map[string]any    `json:"args"`
	Userdata     *userdata         `json:"userdata"`
	InstanceType string            `json:"instance_type"`
	SubnetPool   string            `json:"subnet_pool"`
	Vars         map[string]string `json:"vars"`
	Allowed      []string          `json:"allowed_instance_types"`
}

type group struct {
	Template      string            `json:"template"`
	Size          int               `json:"size"`
	InstanceType  string            `json:"instance_type"`
	SubnetPool    string            `json:"subnet_pool"`
	Vars          map[string]string `json:"vars"`
	Args          map[string]any    `json:"args"`
	DrainTimeout  *duration         `json:"drain_timeout"`
	LoadBalancers []string          `json:"load_balancers"`
	Surge         *int              `json:"surge"`
	Expiry        *expiry           `json:"expiry"`
	Pool          *struct {
		MaxClaimed      int      `json:"max_claimed"`
		MaxUnclaimedAge duration `json:"max_unclaimed_age"`
		Reclaim         string   `json:"reclaim"`
		State           string   `json:"state"`
		OnEmpty         string   `json:"on_empty"`
		WarmFiles       []string `json:"warm_files"`
	} `json:"pool"`
	DrawFrom string `json:"draw_from"`
}

type config struct {
	Server       server                 `json:"server"`
	Tenants      map[string]struct{}    `json:"tenants"`
	Certificates map[string]certificate `json:"certificates"`
	Defaults     struct {
		Args     map[string]any    `json:"args"`
		Vars     map[string]string `json:"vars"`
		Userdata *userdata         `json:"userdata"`
	} `json:"defaults"`
	Templates map[string]template         `json:"templates"`
	Groups    map[string]map[string]group `json:"groups"`
}

// Blanks comments and trailing commas, as a copy.
func strip(text []byte) []byte {
	out := append([]byte(nil), text...)
	comma := -1
	for i := 0; i < len(out); i++ {
		switch c := out[i]; {
		case c == '"':
			comma = -1
			for i++; i < len(out) && out[i] != '"'; i++ {
				if out[i] == '\\' {
					i++
				}
			}
		case c == '/' && i+1 < len(out) && out[i+1] == '/':
			for ; i < len(out) && out[i] != '\n'; i++ {
				out[i] = ' '
			}
		case c == '/' && i+1 < len(out) && out[i+1] == '*':
			end := bytes.Index(out[i+2:], []byte("*/"))
			if end < 0 {
				return out
			}
			for last := i + end + 4; i < last; i++ {
				if out[i] != '\n' {
					out[i] = ' '
				}
			}
			i--
		case c == ',':
			comma = i
		case c == '}' || c == ']':
			if comma >= 0 {
				out[comma] = ' '
			}
			comma = -1
		case c != ' ' && c != '\n' && c != '\t' && c != '\r':
			comma = -1
		}
	}
	return out
}

func isName(s string) bool {
	if len(s) == 0 || len(s) > 32 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '-' && s[i-1] == '-' || c != '-' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

func port(addr string) (int, error) {
	i := strings.LastIndexByte(addr, ':')
	if i < 0 {
		return 0, fmt.Errorf("%q is not an address", addr)
	}
	n, err := strconv.Atoi(addr[i+1:])
	if err != nil || n < 0 || n > 65535 {
		return 0, fmt.Errorf("%q is not an address", addr)
	}
	return n, nil
}

type ranged struct {
	name        string
	value       duration
	least, most time.Duration
}

func checkServer(s *server) error {
	if !isName(s.ClusterID) || !isName(s.Shard) {
		return fmt.Errorf("server: bad name")
	}
	switch s.Provider.Kind {
	case "local", "qemu":
		if s.Provider.Region == "" {
			s.Provider.Region, s.Provider.Zone = "local", "local"
		}
	case "aws", "gcp", "google", "proxmox":
		if s.Provider.Region == "" || s.Provider.Zone == "" {
			return fmt.Errorf("server.provider: region and zone are required")
		}
	default:
		return fmt.Errorf("server.provider.kind: %q", s.Provider.Kind)
	}
	seen := map[int]bool{}
	for _, addr := range []string{s.Bind.Health, s.Bind.Election, s.Bind.Registration, s.Bind.Operator, s.Bind.Agent} {
		n, err := port(addr)
		if err != nil {
			return err
		}
		if n != 0 && seen[n] {
			return fmt.Errorf("server.bind: port %d twice", n)
		}
		seen[n] = true
	}
	subnets := map[string]bool{}
	for name, pool := range s.SubnetPools {
		if !isName(name) || len(pool) == 0 {
			return fmt.Errorf("server.subnet_pools.%s", name)
		}
		for _, subnet := range pool {
			if subnets[subnet] {
				return fmt.Errorf("subnet %q twice", subnet)
			}
			subnets[subnet] = true
		}
	}
	if (s.Secrets.Provider == "object-storage") != (s.Secrets.EncryptionKey != nil) {
		return fmt.Errorf("server.secrets.encryption_key")
	}
	for _, r := range []ranged{
		{"renew_interval", s.LeaderElection.Renew, 500 * time.Millisecond, time.Minute},
		{"lease_timeout", s.LeaderElection.Lease, 3 * time.Duration(s.LeaderElection.Renew), 1 << 62},
		{"request_timeout", s.RequestTimeout, time.Second, 10 * time.Minute},
		{"health_check_interval", s.HealthCheck, time.Second, time.Hour},
		{"default_drain_timeout", s.DrainTimeout, 0, 24 * time.Hour},
		{"shutdown_timeout", s.ShutdownTimeout, 0, 10 * time.Minute},
		{"registration_timeout", s.GC.Registration, 30 * time.Second, 1 << 62},
		{"orphan_grace", s.GC.OrphanGrace, time.Minute, 1 << 62},
	} {
		if time.Duration(r.value) < r.least || time.Duration(r.value) > r.most {
			return fmt.Errorf("server.%s: %s", r.name, time.Duration(r.value))
		}
	}
	if s.Expiry.Eligible != 0 && s.Expiry.Forced != 0 && s.Expiry.Eligible >= s.Expiry.Forced {
		return fmt.Errorf("server.expiry")
	}
	return nil
}

func checkTemplate(c *config, name string, t *template) error {
	if len(t.Kind) != 3 || t.Kind == "opr" || t.Arch != "amd64" && t.Arch != "arm64" {
		return fmt.Errorf("templates.%s", name)
	}
	if _, ok := c.Server.SubnetPools[t.SubnetPool]; !ok {
		return fmt.Errorf("templates.%s.subnet_pool: %q", name, t.SubnetPool)
	}
	for file, f := range t.Files {
		if file == "" || file[0] == '.' || strings.ContainsRune(file, '/') {
			return fmt.Errorf("templates.%s.files: %q", name, file)
		}
		switch f.Kind {
		case "env":
			var lines map[string]string
			if err := json.Unmarshal(f.Template, &lines); err != nil {
				return err
			}
		case "certificate":
			var certificate string
			if err := json.Unmarshal(f.Template, &certificate); err != nil {
				return err
			}
			if _, ok := c.Certificates[certificate]; !ok || f.Key == nil {
				return fmt.Errorf("templates.%s.files.%s", name, file)
			}
		case "secret", "storage":
			if f.Source == "" {
				return fmt.Errorf("templates.%s.files.%s", name, file)
			}
		case "json", "string":
		default:
			return fmt.Errorf("templates.%s.files.%s.kind: %q", name, file, f.Kind)
		}
	}
	return nil
}

func check(c *config) error {
	if err := checkServer(&c.Server); err != nil {
		return err
	}
	for name, certificate := range c.Certificates {
		if certificate.Kind != "client" && certificate.Kind != "server" || certificate.TTL < 1 {
			return fmt.Errorf("certificates.%s", name)
		}
	}
	if u := c.Defaults.Userdata; u != nil {
		var lines []string
		if err := json.Unmarshal(u.Content, &lines); err != nil {
			return err
		}
		_ = strings.Join(lines, "\n") + "\n"
	}
	for name, t := range c.Templates {
		if err := checkTemplate(c, name, &t); err != nil {
			return err
		}
	}
	for tenant, groups := range c.Groups {
		if _, ok := c.Tenants[tenant]; !ok && tenant != "default" {
			return fmt.Errorf("groups.%s", tenant)
		}
		for name, g := range groups {
			if _, ok := c.Templates[g.Template]; !ok || !isName(name) || g.Size < 0 || g.Size > 10000 {
				return fmt.Errorf("groups.%s.%s", tenant, name)
			}
		}
	}
	return nil
}

func load(text []byte) (*config, error) {
	c := &config{}
	s := &c.Server
	s.LeaderElection.Renew, s.LeaderElection.Lease = duration(2*time.Second), duration(8*time.Second)
	s.RequestTimeout, s.HealthCheck = duration(30*time.Second), duration(time.Minute)
	s.DrainTimeout, s.ShutdownTimeout = duration(5*time.Minute), duration(10*time.Second)
	s.GC.Registration, s.GC.OrphanGrace = duration(5*time.Minute), duration(10*time.Minute)
	decoder := json.NewDecoder(bytes.NewReader(strip(text)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(c); err != nil {
		return nil, err
	}
	return c, check(c)
}

// Of all threads: the collector counts.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func main() {
	iterations, err := strconv.Atoi(os.Args[1])
	text, readErr := io.ReadAll(os.Stdin)
	if err != nil || readErr != nil {
		os.Exit(2)
	}
	start := cpuTime()
	for range iterations {
		if _, err := load(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	fmt.Println((cpuTime() - start).Nanoseconds())
}
