// Package given looks at what an application has set, before anything of it is sent.
package given

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Hosts returns an error for the first of the hosts that is not one, as gocql reads them: a name or an IP address, and a
// port after it or none. What may be a password in it is not shown.
func Hosts(hosts []string) error {
	for i, h := range hosts {
		if h == "" {
			return errors.New("cassandra: a host is empty")
		}
		name, port, err := net.SplitHostPort(h)
		if err != nil { // it has no port, or is an address with colons
			name, port = h, "1"
		}
		n, badPort := strconv.ParseUint(port, 10, 16)
		_, noAddress := netip.ParseAddr(name)
		if name != "" && badPort == nil && n > 0 && (noAddress == nil || !strings.ContainsAny(name, ":/@[]?#\\ \t\r\n")) {
			continue
		}
		shown := strconv.Quote(h)
		if strings.Contains(h, "@") {
			shown = "which has a '@'"
		}
		return fmt.Errorf("cassandra: host %d of %d, %s, is not HOST or HOST:PORT: give a name or an IP address, "+
			"alone or with a port from 1 to 65535, as db1, db1:9042, ::1 or [::1]:9042", i+1, len(hosts), shown)
	}
	return nil
}

// copies is a number of copies as Cassandra reads it; the number after a slash is that of transient ones.
var copies = regexp.MustCompile(`^[0-9]{1,9}(/[0-9]{1,9})?$`)

// Replication returns an error for a map of CREATE KEYSPACE that the strategies of Cassandra itself do not take. What other
// strategies take is for them to say.
func Replication(options map[string]string) error {
	class := options["class"]
	switch class[strings.LastIndex(class, ".")+1:] {
	case "":
		if len(options) == 0 {
			return nil // there is a default
		}
		return errors.New(`cassandra: the replication names no class; give "SimpleStrategy" with a "replication_factor", or "NetworkTopologyStrategy" with a number for each data centre`)
	case "SimpleStrategy", "NetworkTopologyStrategy":
		for _, k := range slices.Sorted(maps.Keys(options)) {
			if v := options[k]; k != "class" && !copies.MatchString(v) {
				return fmt.Errorf("cassandra: the replication has %q for %q: give the number of copies, such as \"3\"", v, k)
			}
		}
	}
	return nil
}

// KeptIn returns an error if a replication says that a data centre has no copies. Only one that names data centres says so.
func KeptIn(datacentre string, replication map[string]string) error {
	class := replication["class"]
	_, all := replication["replication_factor"] // of each data centre that has nodes
	if n := replication[datacentre]; datacentre == "" || all || class[strings.LastIndex(class, ".")+1:] != "NetworkTopologyStrategy" || n != "" && n != "0" {
		return nil
	}
	return fmt.Errorf("the replication of the keyspace keeps no copies in data centre %s: take one where it does, or alter the keyspace", datacentre)
}

// Literal returns the map of CREATE KEYSPACE, in CQL. None is one copy of everything.
func Literal(replication map[string]string) string {
	if len(replication) == 0 {
		replication = map[string]string{"class": "SimpleStrategy", "replication_factor": "1"}
	}
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(replication)) {
		parts = append(parts, quote(k)+": "+quote(replication[k]))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
