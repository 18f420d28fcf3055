package main

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"nstance/test/go_peers/internal/identity"
)

// Settings is the environment of an agent.
type Settings struct {
	RegistrationAddr string
	AgentAddr        string
	InstanceID       string
	Identity         identity.Folder
	Keys             identity.Folder
	Recv             identity.Folder
	Hostname         string
	IPv4             string
	IPv6             string
	ReportInterval   time.Duration
}

// ReadSettings also answers every problem of the environment, one line each.
func ReadSettings() (*Settings, []string) {
	var problems []string
	text := func(name, otherwise string) string {
		if value := os.Getenv("NSTANCE_" + name); value != "" {
			return value
		}
		return otherwise
	}
	required := func(name string) string {
		value := text(name, "")
		if value == "" {
			problems = append(problems, "NSTANCE_"+name+" is required")
		}
		return value
	}
	address := func(name string) string {
		value := required(name)
		if _, _, err := net.SplitHostPort(value); value != "" && err != nil {
			problems = append(problems, fmt.Sprintf("NSTANCE_%s: %v", name, err))
		}
		return value
	}
	folder := func(name, otherwise string, mode os.FileMode) identity.Folder {
		path := text(name+"_DIR", "/opt/nstance-agent/"+otherwise)
		if problem := mustBeFolder("NSTANCE_"+name+"_DIR", path); problem != "" {
			problems = append(problems, problem)
		}
		if given := text(name+"_MODE", ""); given != "" {
			bits, err := strconv.ParseUint(given, 8, 32)
			if err != nil || bits > 0o777 {
				problems = append(problems, "NSTANCE_"+name+"_MODE: octal, at most 0777")
			}
			mode = os.FileMode(bits)
		}
		return identity.Folder{Path: path, Mode: mode}
	}
	settings := &Settings{
		RegistrationAddr: address("SERVER_REGISTRATION_ADDR"),
		AgentAddr:        address("SERVER_AGENT_ADDR"),
		InstanceID:       required("INSTANCE_ID"),
		Identity:         folder("IDENTITY", "identity", 0o600),
		Keys:             folder("KEYS", "keys", 0o640),
		Recv:             folder("RECV", "recv", 0o640),
		Hostname:         text("INSTANCE_HOSTNAME", hostname()),
		IPv4:             text("INSTANCE_IPV4", firstAddress(true)),
		IPv6:             text("INSTANCE_IPV6", firstAddress(false)),
	}
	interval, err := time.ParseDuration(text("REPORT_INTERVAL", "60s"))
	if err != nil || interval < 0 {
		problems = append(problems, "NSTANCE_REPORT_INTERVAL: a Go duration")
	}
	settings.ReportInterval = interval
	return settings, problems
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}

// firstAddress is the first that is neither loopback nor link-local, of an interface that is up.
func firstAddress(four bool) string {
	interfaces, err := net.Interfaces()
	if err != nil {
		return ""
	}
	for _, device := range interfaces {
		if device.Flags&net.FlagUp == 0 || device.Flags&net.FlagLoopback != 0 {
			continue
		}
		addresses, err := device.Addrs()
		if err != nil {
			continue
		}
		for _, address := range addresses {
			network, ok := address.(*net.IPNet)
			if !ok || network.IP.IsLoopback() || network.IP.IsLinkLocalUnicast() {
				continue
			}
			if (network.IP.To4() != nil) == four {
				return network.IP.String()
			}
		}
	}
	return ""
}
