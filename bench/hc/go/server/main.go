// SPDX-License-Identifier: Apache-2.0

// Command server is the HTTPS target of the benchmarks: every address of the
// loopback network at one port, with a certificate made when it starts. It
// prints "ready" once it listens, and ends with its standard input.
//
//	server PORT
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"time"
)

const (
	answer  = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n"
	timeout = 30 * time.Second
)

func certificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "target.example"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		DNSNames:     []string{"target.example"},
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

func serve(connection net.Conn) {
	defer func() { _ = connection.Close() }()
	_ = connection.SetDeadline(time.Now().Add(timeout))
	var request [1024]byte
	if n, err := connection.Read(request[:]); err != nil || n == 0 {
		return
	}
	_, _ = connection.Write([]byte(answer))
}

func run() error {
	if len(os.Args) != 2 {
		return fmt.Errorf("usage: server PORT")
	}
	own, err := certificate()
	if err != nil {
		return err
	}
	listener, err := tls.Listen("tcp4", "0.0.0.0:"+os.Args[1], &tls.Config{
		Certificates:           []tls.Certificate{own},
		SessionTicketsDisabled: true,
	})
	if err != nil {
		return err
	}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				continue
			}
			go serve(connection)
		}
	}()
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
}
