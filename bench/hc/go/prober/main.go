// SPDX-License-Identifier: Apache-2.0

// Command prober is a health checker on net/http, as one would write it in Go
// with care: no keep-alive, no compression, no HTTP/2, no verification, no
// post-quantum share, and as many goroutines as concurrent probes. It probes
// each of N targets once and prints JSON.
//
//	prober http|https COUNT PORT WORKERS
//
// Target i is 127.1.0.0 + i.
package main

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	firstTarget = 0x7f010000
	timeout     = 10 * time.Second
)

type result struct {
	Probes   uint32  `json:"probes"`
	Wall     float64 `json:"wall_s"`
	User     float64 `json:"user_s"`
	System   float64 `json:"system_s"`
	Failures uint32  `json:"failures"`
	MaxRSS   int64   `json:"max_rss_kb"`
}

func client() *http.Client {
	dialer := net.Dialer{Timeout: timeout, KeepAlive: -1}
	return &http.Client{
		Timeout: timeout,
		Transport: &http.Transport{
			DialContext:        dialer.DialContext,
			DisableKeepAlives:  true,
			DisableCompression: true,
			TLSClientConfig: &tls.Config{
				InsecureSkipVerify: true,
				CurvePreferences:   []tls.CurveID{tls.X25519},
			},
			TLSNextProto:    map[string]func(string, *tls.Conn) http.RoundTripper{},
			ReadBufferSize:  512,
			WriteBufferSize: 512,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
}

func probe(client *http.Client, scheme, port string, index uint32) bool {
	var address [4]byte
	binary.BigEndian.PutUint32(address[:], firstTarget+index)
	url := scheme + "://" + netip.AddrFrom4(address).String() + ":" + port + "/"
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	// Only the status matters; the body is not read.
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

func burst(scheme, port string, count, workers uint32) uint32 {
	var next, failures atomic.Uint32
	var group sync.WaitGroup
	shared := client()
	for range min(workers, count) {
		group.Go(func() {
			for {
				index := next.Add(1) - 1
				if index >= count {
					return
				}
				if !probe(shared, scheme, port, index) {
					failures.Add(1)
				}
			}
		})
	}
	group.Wait()
	return failures.Load()
}

// mostMemory returns kilobytes. Getrusage would return those of the parent
// process, if they were more.
func mostMemory() (int64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if rest, found := strings.CutPrefix(line, "VmHWM:"); found {
			number := strings.TrimSuffix(strings.TrimSpace(rest), " kB")
			return strconv.ParseInt(number, 10, 64)
		}
	}
	return 0, errors.New("no VmHWM")
}

func run() error {
	if len(os.Args) != 5 {
		return fmt.Errorf("usage: prober http|https COUNT PORT WORKERS")
	}
	count, err := strconv.ParseUint(os.Args[2], 10, 32)
	if err != nil {
		return err
	}
	workers, err := strconv.ParseUint(os.Args[4], 10, 32)
	if err != nil {
		return err
	}
	start := time.Now()
	failures := burst(os.Args[1], os.Args[3], uint32(count), uint32(workers))
	wall := time.Since(start)
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return err
	}
	memory, err := mostMemory()
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(result{
		Probes:   uint32(count),
		Wall:     wall.Seconds(),
		User:     time.Duration(usage.Utime.Nano()).Seconds(),
		System:   time.Duration(usage.Stime.Nano()).Seconds(),
		Failures: failures,
		MaxRSS:   memory,
	})
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "prober:", err)
		os.Exit(1)
	}
}
