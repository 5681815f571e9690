package lab

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/servers"
)

type serversOptions struct {
	kind     servers.Kind
	dir      string
	release  string
	nodes    int
	port     int
	peerPort int
	heapMB   int
	killSafe bool
	secure   bool
	fast     bool
}

func serverKinds() []string {
	var names []string
	for _, k := range servers.Kinds() {
		names = append(names, string(k))
	}
	return names
}

// serverReleases says which releases can be started.
func serverReleases() string {
	var all []string
	for _, k := range servers.Kinds() {
		all = append(all, fmt.Sprintf("%s %s", k, strings.Join(k.Releases(), ", ")))
	}
	return strings.Join(all, "; ")
}

// newServers returns the command with its subcommands up, down and status.
func newServers(e *cli.Env) *cobra.Command {
	kinds := strings.Join(serverKinds(), "|")
	add := func(action, use, short string, needKind bool) *cobra.Command {
		opts := &serversOptions{}
		sub := &cobra.Command{
			Use: use, ValidArgs: serverKinds(),
			Short: short,
			Args: func(_ *cobra.Command, args []string) error {
				switch {
				case len(args) > 1:
					return exit.Usagef("name one database, %d are given", len(args))
				case len(args) == 1 && !slices.Contains(serverKinds(), args[0]):
					return exit.Usagef("unknown database %q: there is %s", args[0], strings.Join(serverKinds(), ", "))
				case len(args) == 0 && needKind:
					return exit.Usagef("name a database: %s", strings.Join(serverKinds(), ", "))
				}
				return nil
			},
			RunE: func(cmd *cobra.Command, args []string) error {
				if len(args) == 1 {
					opts.kind = servers.Kind(args[0])
				}
				if err := opts.check(); err != nil {
					return err
				}
				return manageServers(cmd.Context(), e, action, opts)
			},
		}
		f := sub.Flags()
		f.SortFlags = false
		f.StringVar(&opts.dir, "dir", "", "data `folder` (default: one for each database in the user's cache)")
		if action == "up" {
			f.StringVar(&opts.release, "release", "", "`release` of the database (default: the newest, or as the folder was made): "+serverReleases())
			f.IntVar(&opts.nodes, "nodes", 0, "`number` of nodes, 1 or 3 (default: 1, or as the folder was made)")
			cli.Offer(f, "nodes", "1", "3")
			f.IntVar(&opts.port, "port", 0, "`port` for clients (default: 9042 for cassandra, 2181 for hbase's ZooKeeper)")
			f.IntVar(&opts.peerPort, "peer-port", 0, "first `port` between the servers (default: 7000 for cassandra, 16000 for hbase)")
			f.IntVar(&opts.heapMB, "heap", 0, "largest heap of a server in `MiB` (default: 768 for cassandra, 512 for hbase, which some 10^6 rows need more than)")
			f.BoolVar(&opts.killSafe, "kill-safe", false, "have a Cassandra node acknowledge only what survives its being killed")
			f.BoolVar(&opts.secure, "secure", false, "have Cassandra ask for TLS with a certificate, and for a login; what a client needs\nis made in the folder, and --store is printed with it")
			f.BoolVar(&opts.fast, "fast-start", false, "leave out the JVM's optimising compiler, and what keeps new tables when a server is killed:\nit is up in half the processor time, and then slower; not for measuring")
		}
		return sub
	}
	cmd := cli.Group("servers", "Start, stop and inspect real databases on this machine", `Servers starts a real Cassandra or HBase on the loopback interface, for trying and
measuring. It needs a JDK (11 or 17) and Maven, which fetches the servers once; it
needs no containers. They go on until 'servers down' stops them.

Three nodes of HBase are three processes on one local file system, which has no leases:
when a region server is paused for longer than its session, say 15 s, the others take
its regions without the end of its log, and rows that were acknowledged are lost. HDFS
takes the log away from the paused server first. So they are for trying what a client
does when a server dies, and not for data that is to stay.`,
		add("up", "up "+kinds, "Start a database, or the nodes of it that do not run", true),
		add("down", "down "+kinds, "Stop a database; its data stays", true),
		add("status", "status ["+kinds+"]", "Show what runs", false))
	cmd.Example = `  opebench servers up cassandra
  opebench run --store cassandra://127.0.0.1/bench --key bench.key
  opebench servers up cassandra --secure --dir secured --port 9043 --peer-port 7043
  opebench servers status
  opebench servers down cassandra`
	return cmd
}

func (o *serversOptions) check() error {
	if o.release != "" && !slices.Contains(o.kind.Releases(), o.release) {
		return exit.Usagef("--release is %q, %s has %s", o.release, o.kind, strings.Join(o.kind.Releases(), ", "))
	}
	if o.nodes != 0 && o.nodes != 1 && o.nodes != 3 {
		return exit.Usagef("--nodes is %d, need 1 or 3", o.nodes)
	}
	// Some ports above the one between the servers are taken, too.
	const most = 65_535 - 32
	if o.port < 0 || o.port > most {
		return exit.Usagef("--port is %d, need 1 to %d", o.port, most)
	}
	if o.peerPort < 0 || o.peerPort > most {
		return exit.Usagef("--peer-port is %d, need 1 to %d", o.peerPort, most)
	}
	if o.heapMB != 0 && (o.heapMB < 256 || o.heapMB > 1<<20) {
		return exit.Usagef("--heap is %d MiB, need at least 256", o.heapMB)
	}
	if o.killSafe && o.kind != servers.Cassandra {
		return exit.Usagef("--kill-safe is for cassandra; %s is always so", o.kind)
	}
	if o.secure && o.kind != servers.Cassandra {
		return exit.Usagef("--secure is for cassandra: the client library of %s knows neither TLS nor Kerberos", o.kind)
	}
	return nil
}

// start returns how the servers are started. What is measured on them is to be what they can do, so that
// they have all of the JVM unless something else is asked for.
func (o *serversOptions) start() servers.Options {
	return servers.Options{
		Kind: o.kind, Dir: o.dir, Release: o.release, Nodes: o.nodes, Port: o.port, PeerPort: o.peerPort, HeapMB: o.heapMB, KillSafe: o.killSafe,
		Secure: o.secure, Optimize: !o.fast,
	}
}

func manageServers(ctx context.Context, e *cli.Env, action string, opts *serversOptions) error {
	switch action {
	case "up":
		return serversUp(ctx, e, opts)
	case "down":
		ended, err := servers.Down(ctx, opts.kind, opts.dir)
		if err != nil {
			return exit.Early(ctx, err)
		}
		if ended == 0 {
			_, err = fmt.Fprintf(e.Stdout, "%s does not run\n", opts.kind)
		} else {
			_, err = fmt.Fprintf(e.Stdout, "%s is stopped, %d processes\n", opts.kind, ended)
		}
		return err
	}
	return serversStatus(e, opts)
}

func serversUp(ctx context.Context, e *cli.Env, opts *serversOptions) error {
	begin := time.Now()
	options := opts.start()
	options.Logf = func(format string, args ...any) { fmt.Fprintf(e.Stderr, format+"\n", args...) }
	c, started, err := servers.Up(ctx, options)
	if err != nil {
		return exit.Early(ctx, err)
	}
	state := "runs already"
	if started {
		state = fmt.Sprintf("is up after %.0f s", time.Since(begin).Seconds())
	}
	_, err = fmt.Fprintf(e.Stdout, "%s %s, data in %s\nopebench run --store %s --key FILE\n",
		opts.kind, state, c.Dir(), quoted(storeName(c, false)))
	if _, secured := c.Access(true); secured && err == nil {
		_, err = fmt.Fprintf(e.Stdout, "as the superuser, who may make keyspaces and roles:\n--store %s\n", quoted(storeName(c, true)))
	}
	return err
}

// quoted returns an argument as a shell takes it.
func quoted(arg string) string {
	if !strings.ContainsAny(arg, "&' $\"") {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}

// inName makes what is escaped for a query readable, and a blank one for who takes a plus as it is.
var inName = strings.NewReplacer("%2F", "/", "+", "%20")

// storeName returns the value of --store for a cluster, as its superuser or as who may use one keyspace.
func storeName(c *servers.Cluster, superuser bool) string {
	addrs := strings.Join(c.Addrs(), ",")
	if c.Kind() == servers.HBase {
		return "hbase://" + addrs
	}
	var options []string
	if n := len(c.Addrs()); n > 1 {
		options = append(options, fmt.Sprintf("replication=%d", n))
	}
	if a, ok := c.Access(superuser); ok {
		for _, o := range [][2]string{{"user", a.User}, {"password-file", a.Password}, {"ca", a.CA}, {"cert", a.Cert}, {"key", a.Key}} {
			options = append(options, o[0]+"="+inName.Replace(url.QueryEscape(o[1])))
		}
	}
	name := "cassandra://" + addrs + "/" + servers.Keyspace
	if len(options) > 0 {
		name += "?" + strings.Join(options, "&")
	}
	return name
}

func serversStatus(e *cli.Env, opts *serversOptions) error {
	kinds := servers.Kinds()
	if opts.kind != "" {
		kinds = []servers.Kind{opts.kind}
	} else if opts.dir != "" {
		return exit.Usagef("--dir is about one database: name it")
	}
	w := table.NewWriter()
	w.SetStyle(table.StyleDefault)
	w.Style().Options = table.OptionsNoBordersAndSeparators
	w.AppendHeader(table.Row{"NODE", "ADDRESS", "PROCESS", "STATE", "MEMORY", "LOG"})
	for _, k := range kinds {
		s, err := servers.Inspect(k, opts.dir)
		if errors.Is(err, servers.ErrUnsupported) {
			return err
		}
		if err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
		if len(s.Nodes) == 0 {
			w.AppendRow(table.Row{k, "", "", "never started", "", ""})
		}
		for _, n := range s.Nodes {
			switch {
			case n.PID == 0:
				w.AppendRow(table.Row{n.Name, n.Addr, "", "stopped", "", n.Log})
			case n.Answers:
				w.AppendRow(table.Row{n.Name, n.Addr, n.PID, "running", fmt.Sprintf("%d MB", n.Memory>>20), n.Log})
			default:
				w.AppendRow(table.Row{n.Name, n.Addr, n.PID, "not ready", fmt.Sprintf("%d MB", n.Memory>>20), n.Log})
			}
		}
	}
	_, err := fmt.Fprintln(e.Stdout, w.Render())
	return err
}
