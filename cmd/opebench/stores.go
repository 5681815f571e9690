package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rangecrypt/rangecrypt/cmd/opebench/internal/repro"
	"github.com/rangecrypt/rangecrypt/store/cassandra"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/hbase"
	"github.com/rangecrypt/rangecrypt/store/pebble"
)

// A storeKind is a kind of database that --store can name.
type storeKind struct {
	scheme string // before the colon
	usage  string
	check  func(name string) error // of what is behind the colon; may be nil
	open   openFunc
	far    farFunc // nil for one without servers
}

// An openFunc opens a database. Without create, one that does not exist is an error and is not
// made.
type openFunc func(ctx context.Context, name string, create bool) (driver.DB, error)

// A farFunc opens a database on servers with connections that dial makes.
type farFunc func(ctx context.Context, name string, dial repro.Dial) (driver.DB, error)

// storeKinds lists them; names are validated against it and opened from it.
func storeKinds() []storeKind {
	return []storeKind{
		{scheme: "pebble", usage: "pebble:DIR", open: openPebble},
		{scheme: "cassandra", usage: "cassandra://HOST[:PORT][,...]/KEYSPACE[?replication=N]", check: checkCassandra, open: openCassandra, far: openCassandraBy},
		{scheme: "hbase", usage: "hbase://QUORUM[/NAMESPACE]", check: checkHBase, open: openHBase, far: openHBaseBy},
	}
}

func storeUsages() string { return strings.Join(storeKindUsages(), ", ") }

func storeKindUsages() []string {
	var usages []string
	for _, k := range storeKinds() {
		usages = append(usages, k.usage)
	}
	return usages
}

// checkStore returns an error unless the name is of a known kind.
func checkStore(name string) error {
	_, _, err := splitStore(name)
	return err
}

func splitStore(name string) (storeKind, string, error) {
	scheme, rest, _ := strings.Cut(name, ":")
	i := slices.IndexFunc(storeKinds(), func(k storeKind) bool { return k.scheme == scheme })
	if i < 0 || rest == "" {
		return storeKind{}, "", usagef("unknown store %q: there is %s", shown(name), storeUsages())
	}
	kind := storeKinds()[i]
	if kind.check != nil {
		if err := kind.check(rest); err != nil {
			return storeKind{}, "", usagef("store %q: %v; it is %s", shown(name), err, kind.usage)
		}
	}
	return kind, rest, nil
}

// shown returns the name of a store for a message, without a password that somebody put there.
func shown(name string) string {
	at := strings.LastIndex(name, "@")
	scheme, _, ok := strings.Cut(name, "://")
	if at < 0 || !ok {
		return name
	}
	return scheme + "://..." + name[at:]
}

// openStore opens the database that --store names.
func openStore(ctx context.Context, name string, create bool) (driver.DB, error) {
	kind, rest, err := splitStore(name)
	if err != nil {
		return nil, err
	}
	return kind.open(ctx, rest, create)
}

func openPebble(_ context.Context, dir string, create bool) (driver.DB, error) {
	if !create {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("there is no store in %s; 'opebench insert' and 'opebench table create' make one: %w", dir, fs.ErrNotExist)
		}
	}
	return pebble.Open(dir, nil)
}

var (
	lowerName     = regexp.MustCompile(`^[a-z][a-z0-9_]{0,47}$`)
	namespaceName = regexp.MustCompile(`^[A-Za-z0-9_]{1,60}$`)
)

// checkHosts returns an error unless all are HOST or HOST:PORT.
func checkHosts(hosts []string) error {
	for _, h := range hosts {
		host, port := h, "1"
		if strings.Contains(strings.TrimPrefix(h, "["), ":") {
			var err error
			if host, port, err = net.SplitHostPort(h); err != nil {
				return fmt.Errorf("%q is not HOST or HOST:PORT", h)
			}
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if host == "" || err != nil || n == 0 {
			return fmt.Errorf("%q is not HOST or HOST:PORT", h)
		}
	}
	return nil
}

// parseCassandra reads //HOST[:PORT][,...]/KEYSPACE[?replication=N].
func parseCassandra(name string) (cassandra.Config, error) {
	var c cassandra.Config
	u, err := url.Parse("cassandra:" + name)
	if err != nil {
		return c, errors.New("it is not a URL")
	}
	c.Keyspace = strings.TrimPrefix(u.Path, "/")
	if u.Host == "" || c.Keyspace == "" || u.User != nil || u.Fragment != "" {
		return c, errors.New("it needs hosts and a keyspace, and takes no credentials")
	}
	if !lowerName.MatchString(c.Keyspace) {
		return c, fmt.Errorf("keyspace %q: need 1 to 48 characters of a-z, 0-9 and '_', beginning with a letter", c.Keyspace)
	}
	c.Hosts = strings.Split(u.Host, ",")
	if err := checkHosts(c.Hosts); err != nil {
		return c, err
	}
	for key, values := range u.Query() {
		n, err := strconv.Atoi(values[0])
		switch {
		case key != "replication":
			return c, fmt.Errorf("%q is no option", key)
		case len(values) > 1 || err != nil || n < 1:
			return c, fmt.Errorf("%q needs one number from 1 on", key)
		}
		c.Replication = map[string]string{"class": "SimpleStrategy", "replication_factor": values[0]}
	}
	return c, nil
}

func checkCassandra(name string) error {
	_, err := parseCassandra(name)
	return err
}

func openCassandra(ctx context.Context, name string, _ bool) (driver.DB, error) {
	return openCassandraBy(ctx, name, nil)
}

func openCassandraBy(ctx context.Context, name string, dial repro.Dial) (driver.DB, error) {
	config, err := parseCassandra(name)
	if err != nil {
		return nil, err
	}
	config.Dial = dial
	config.Logger = slog.New(warnings{os.Stderr})
	return cassandra.Open(ctx, config)
}

// warnings is a handler that prints the warnings of a store's adapter. What the database's client
// library reports is left out: it comes back as an error where it matters.
type warnings struct{ w io.Writer }

func (h warnings) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }
func (h warnings) WithAttrs([]slog.Attr) slog.Handler               { return h }
func (h warnings) WithGroup(string) slog.Handler                    { return h }

func (h warnings) Handle(_ context.Context, r slog.Record) error {
	own := true
	r.Attrs(func(a slog.Attr) bool {
		own = own && a.Key != "from"
		return own
	})
	if !own {
		return nil
	}
	_, err := fmt.Fprintf(h.w, "opebench: warning: %s\n", r.Message)
	return err
}

// parseHBase reads //QUORUM[/NAMESPACE].
func parseHBase(name string) (quorum, namespace string, err error) {
	rest, ok := strings.CutPrefix(name, "//")
	quorum, namespace, _ = strings.Cut(rest, "/")
	if !ok || quorum == "" {
		return "", "", errors.New("it needs the addresses of a ZooKeeper quorum")
	}
	if strings.ContainsAny(name, "?#@") {
		return "", "", errors.New("it takes no options and no credentials")
	}
	if namespace != "" && !namespaceName.MatchString(namespace) {
		return "", "", fmt.Errorf("namespace %q: need 1 to 60 characters of a-z, A-Z, 0-9 and '_'", namespace)
	}
	if err := checkHosts(strings.Split(quorum, ",")); err != nil {
		return "", "", err
	}
	return quorum, namespace, nil
}

func checkHBase(name string) error {
	_, _, err := parseHBase(name)
	return err
}

func openHBase(ctx context.Context, name string, _ bool) (driver.DB, error) {
	return openHBaseBy(ctx, name, nil)
}

func openHBaseBy(ctx context.Context, name string, dial repro.Dial) (driver.DB, error) {
	quorum, namespace, err := parseHBase(name)
	if err != nil {
		return nil, err
	}
	return hbase.Open(ctx, quorum, &hbase.Options{Namespace: namespace, Dial: dial})
}

// temporary is the name that reports give to a store that is removed in the end.
const temporary = "embedded store"
