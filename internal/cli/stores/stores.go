// Package stores opens the databases that the flag --store names.
package stores

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
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/store/cassandra"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/hbase"
	"github.com/rangecrypt/rangecrypt/store/pebble"
)

// A kind is a kind of database that --store can name.
type kind struct {
	scheme string // before the colon
	usage  string
	check  func(name string) error // of what follows the colon; may be nil
	open   Opener
	far    func(ctx context.Context, name string, dial Dial) (driver.DB, error) // nil for one without servers
}

// An Opener opens a database. Without create, one that does not exist is an error and is not made.
type Opener func(ctx context.Context, name string, create bool) (driver.DB, error)

// A Dial makes the connections to the servers of a database.
type Dial = func(ctx context.Context, network, address string) (net.Conn, error)

// kinds lists them; names are validated against it and opened from it.
func kinds() []kind {
	return []kind{
		{scheme: "pebble", usage: "pebble:DIR", open: openPebble},
		{scheme: "cassandra", usage: "cassandra://HOST[:PORT][,...]/KEYSPACE[?replication=N]", check: checkCassandra, open: openCassandra, far: openCassandraBy},
		{scheme: "hbase", usage: "hbase://QUORUM[/NAMESPACE]", check: checkHBase, open: openHBase, far: openHBaseBy},
	}
}

// Usages returns how the databases of each kind are named.
func Usages() []string {
	var usages []string
	for _, k := range kinds() {
		usages = append(usages, k.usage)
	}
	return usages
}

// Check returns an error unless the name is of a known kind.
func Check(name string) error {
	_, _, err := split(name)
	return err
}

// Split divides a name into the kind of the database and what follows the colon.
func Split(name string) (scheme, rest string, err error) {
	k, rest, err := split(name)
	return k.scheme, rest, err
}

func split(name string) (kind, string, error) {
	scheme, rest, _ := strings.Cut(name, ":")
	i := slices.IndexFunc(kinds(), func(k kind) bool { return k.scheme == scheme })
	if i < 0 || rest == "" {
		return kind{}, "", exit.Usagef("unknown store %q: there is %s", Shown(name), strings.Join(Usages(), ", "))
	}
	if keyOnly.MatchString(rest) {
		return kind{}, "", exit.Usagef("--store %s: takes a name, and this looks like a key, which is not shown; a folder with such a name is given with ./ before it", scheme)
	}
	k := kinds()[i]
	if k.check != nil {
		if err := k.check(rest); err != nil {
			return kind{}, "", exit.Usagef("store %q: %v; it is %s", Shown(name), err, k.usage)
		}
	}
	return k, rest, nil
}

// keyOnly matches the text of a key file, and what is longer.
var keyOnly = regexp.MustCompile(`^[0-9a-fA-F]{64,}$`)

// Shown returns the name of a store for a message, without a password that somebody put there.
func Shown(name string) string {
	at := strings.LastIndex(name, "@")
	scheme, _, ok := strings.Cut(name, "://")
	if at < 0 || !ok {
		return name
	}
	return scheme + "://..." + name[at:]
}

// Open opens the database that --store names.
func Open(ctx context.Context, name string, create bool) (driver.DB, error) {
	k, rest, err := split(name)
	if err != nil {
		return nil, err
	}
	return k.open(ctx, rest, create)
}

// Far returns what opens a database with connections that dial makes; nil for one without servers.
func Far(name string) (func(ctx context.Context, dial Dial) (driver.DB, error), error) {
	k, rest, err := split(name)
	if err != nil || k.far == nil {
		return nil, err
	}
	return func(ctx context.Context, dial Dial) (driver.DB, error) { return k.far(ctx, rest, dial) }, nil
}

func openPebble(_ context.Context, dir string, create bool) (driver.DB, error) {
	db, err := pebble.Open(dir, &pebble.Options{MustExist: !create})
	if err == nil {
		return db, nil
	}
	if !create && errors.Is(err, fs.ErrNotExist) && !errors.Is(err, driver.ErrCorrupt) {
		return nil, fmt.Errorf("there is no store in %s; 'opebench insert' and 'rangecrypt table create' make one: %w", dir, fs.ErrNotExist)
	}
	return nil, err
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

// ParseCassandra reads //HOST[:PORT][,...]/KEYSPACE[?replication=N].
func ParseCassandra(name string) (cassandra.Config, error) {
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
	_, err := ParseCassandra(name)
	return err
}

func openCassandra(ctx context.Context, name string, _ bool) (driver.DB, error) {
	return openCassandraBy(ctx, name, nil)
}

func openCassandraBy(ctx context.Context, name string, dial Dial) (driver.DB, error) {
	config, err := ParseCassandra(name)
	if err != nil {
		return nil, err
	}
	config.Dial = dial
	config.Logger = slog.New(warnings{os.Stderr, filepath.Base(os.Args[0])})
	return cassandra.Open(ctx, config)
}

// warnings is a handler that prints the warnings of a store's adapter. What the database's client
// library reports is left out: it comes back as an error where it matters.
type warnings struct {
	w       io.Writer
	program string
}

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
	_, err := fmt.Fprintf(h.w, "%s: warning: %s\n", h.program, r.Message)
	return err
}

// ParseHBase reads //QUORUM[/NAMESPACE].
func ParseHBase(name string) (quorum, namespace string, err error) {
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
	_, _, err := ParseHBase(name)
	return err
}

func openHBase(ctx context.Context, name string, _ bool) (driver.DB, error) {
	return openHBaseBy(ctx, name, nil)
}

func openHBaseBy(ctx context.Context, name string, dial Dial) (driver.DB, error) {
	quorum, namespace, err := ParseHBase(name)
	if err != nil {
		return nil, err
	}
	return hbase.Open(ctx, quorum, &hbase.Options{Namespace: namespace, Dial: dial})
}
