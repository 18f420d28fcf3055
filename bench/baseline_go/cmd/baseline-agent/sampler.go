package main

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"nstance/bench/baseline_go/internal/pb"
)

const ringLength = 180

type sample struct {
	cpu, memory float64
}

// sampler reads CPU and memory every 5 s into a ring of 15 minutes.
type sampler struct {
	mutex       sync.Mutex
	ring        [ringLength]sample
	taken       int
	busy, total float64
}

func newSampler() *sampler {
	made := &sampler{}
	made.busy, made.total = readCPU()
	return made
}

func (s *sampler) run(ctx context.Context) {
	ticker := time.NewTicker(5 * time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.take()
		}
	}
}

func (s *sampler) take() {
	busy, total := readCPU()
	next := sample{memory: readMemory()}
	if total > s.total {
		next.cpu = 100 * (busy - s.busy) / (total - s.total)
	}
	s.busy, s.total = busy, total
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.ring[s.taken%ringLength] = next
	s.taken++
}

func metricsOf(of sample) *pb.Metrics {
	return &pb.Metrics{CpuUsage: proto.Float64(of.cpu), MemoryUsage: proto.Float64(of.memory)}
}

func (s *sampler) latest() *pb.Metrics {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.taken == 0 {
		return &pb.Metrics{}
	}
	return metricsOf(s.ring[(s.taken-1)%ringLength])
}

// mean over the last n samples; nil until there are so many.
func (s *sampler) mean(n int) *pb.Metrics {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.taken < n {
		return nil
	}
	var sum sample
	for i := range n {
		one := s.ring[(s.taken-1-i)%ringLength]
		sum.cpu += one.cpu
		sum.memory += one.memory
	}
	return metricsOf(sample{cpu: sum.cpu / float64(n), memory: sum.memory / float64(n)})
}

func number(text []byte) float64 {
	value, _ := strconv.ParseFloat(string(text), 64)
	return value
}

func readCPU() (busy, total float64) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0
	}
	first, _, _ := bytes.Cut(text, []byte("\n"))
	for i, field := range bytes.Fields(first) {
		if i == 0 || i > 8 {
			continue
		}
		value := number(field)
		total += value
		if i != 4 && i != 5 {
			busy += value
		}
	}
	return busy, total
}

func readMemory() float64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	var total, available float64
	for line := range bytes.Lines(text) {
		fields := bytes.Fields(line)
		if len(fields) < 2 {
			continue
		}
		switch string(fields[0]) {
		case "MemTotal:":
			total = number(fields[1])
		case "MemAvailable:":
			available = number(fields[1])
		}
	}
	if total == 0 {
		return 0
	}
	return 100 * (total - available) / total
}
