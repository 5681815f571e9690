package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

// ErrPortTaken means that a port that a server needs is in use.
var ErrPortTaken = errors.New("port taken")

// checkPort reports whether a server could listen at addr.
func checkPort(addr string) error {
	l, err := net.Listen("tcp4", addr)
	host, port, _ := net.SplitHostPort(addr)
	switch {
	case err == nil:
		return l.Close()
	case isAddrInUse(err):
		return fmt.Errorf("%w: another program listens at %s (\"lsof -i :%s\" or \"ss -ltnp\" "+
			"shows which). Stop it, or choose another port", ErrPortTaken, addr, port)
	case isAddrNotHere(err):
		return fmt.Errorf("this machine has no address %s, which a node needs; on macOS "+
			"\"sudo ifconfig lo0 alias %s\" adds it: %w", host, host, err)
	case isPortNotPermitted(err):
		return fmt.Errorf("port %s is reserved for the superuser, choose one above 1023: %w", port, err)
	}
	return fmt.Errorf("listen at %s: %w", addr, err)
}

// Free ports are taken in blocks, below the range from which systems take the ports of outgoing
// connections (on Linux from 32768 on): such a port can be taken by anyone at any time, also
// between a server's end and its restart.
const (
	firstBlock = 20000
	blockSize  = 32
	blocks     = 370
)

// reservePorts finds a block of ports in which those that addrs lists for it are free. The block
// stays reserved against other callers, also those of other processes, until release is called.
func reservePorts(ctx context.Context, addrs func(base int) []string) (base int, release func(), err error) {
	cache, err := cacheDir()
	if err != nil {
		return 0, nil, err
	}
	dir := filepath.Join(cache, "ports")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, nil, err
	}
	for i := range blocks {
		if err := ctx.Err(); err != nil {
			return 0, nil, err
		}
		base := firstBlock + i*blockSize
		f, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(base)), os.O_CREATE|os.O_RDWR, 0o644)
		if err != nil {
			return 0, nil, err
		}
		ok, err := tryLock(f)
		if err != nil {
			f.Close()
			return 0, nil, err
		}
		free := ok
		for _, addr := range addrs(base) {
			if !free {
				break
			}
			err := checkPort(addr)
			if err != nil && !errors.Is(err, ErrPortTaken) {
				f.Close()
				return 0, nil, err
			}
			free = err == nil
		}
		if free {
			return base, func() { f.Close() }, nil
		}
		f.Close()
	}
	return 0, nil, fmt.Errorf("%w: no free block of ports from %d on", ErrPortTaken, firstBlock)
}
