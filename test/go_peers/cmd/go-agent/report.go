package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance/test/go_peers/internal/pb"
)

// report is one health report, of the fields below 100 only. Without a config.hash there is none.
func (a *Agent) report() (*pb.HealthReportRequest, error) {
	hash, err := os.ReadFile(a.settings.Identity.Name("config.hash"))
	if err != nil {
		return nil, err
	}
	files, err := fileStatus(a.settings.Recv.Path)
	if err != nil {
		return nil, err
	}
	a.count++
	report := &pb.HealthReportRequest{
		Version:    version,
		InstanceId: a.settings.InstanceID,
		Timestamp:  timestamppb.Now(),
		Count:      a.count,
		Uptime:     uptime(),
		Metrics:    metrics(),
		Files:      files,
		ConfigHash: strings.TrimSpace(string(hash)),
	}
	if a.terminating.Load() {
		report.TerminationNotice = &pb.TerminationNotice{Action: "terminate"}
	}
	return report, nil
}

func fileStatus(folder string) (map[string]*pb.FileStatus, error) {
	all := map[string]*pb.FileStatus{}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() || strings.HasPrefix(entry.Name(), ".") || entry.Name() == marker {
			continue
		}
		all[entry.Name()] = &pb.FileStatus{Status: &pb.FileStatus_LastModified{
			LastModified: timestamppb.New(info.ModTime().Truncate(time.Second))}}
	}
	refused, err := os.ReadDir(filepath.Join(folder, errorsFolder))
	if err != nil {
		return all, nil // None was refused yet.
	}
	for _, entry := range refused {
		text, err := os.ReadFile(filepath.Join(folder, errorsFolder, entry.Name()))
		if err == nil && !strings.HasPrefix(entry.Name(), ".") {
			all[entry.Name()] = &pb.FileStatus{Status: &pb.FileStatus_Error{Error: string(text)}}
		}
	}
	return all, nil
}

// uptime of the host as Go prints a duration of whole seconds.
func uptime() string {
	text, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return "0s"
	}
	seconds, err := strconv.ParseFloat(strings.Fields(string(text))[0], 64)
	if err != nil {
		return "0s"
	}
	return (time.Duration(seconds) * time.Second).String()
}

func metrics() *pb.Metrics {
	sample := &pb.Metrics{}
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		values := map[string]float64{}
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			if len(fields) >= 2 {
				values[fields[0]], _ = strconv.ParseFloat(fields[1], 64)
			}
		}
		if total := values["MemTotal:"]; total > 0 {
			sample.MemoryUsage = proto.Float64(100 * (total - values["MemAvailable:"]) / total)
		}
	}
	if text, err := os.ReadFile("/proc/stat"); err == nil {
		first, _, _ := strings.Cut(string(text), "\n")
		total, idle := 0.0, 0.0
		for i, field := range strings.Fields(first)[1:] {
			value, _ := strconv.ParseFloat(field, 64)
			total += value
			if i == 3 || i == 4 {
				idle += value
			}
		}
		if total > 0 {
			sample.CpuUsage = proto.Float64(100 * (total - idle) / total)
		}
	}
	return sample
}
