package cqlsource

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/rangecrypt/rangecrypt/store/cassandra"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/migrate"
)

// A node is one of the cluster, as it describes itself.
type node struct {
	name     string
	settings map[string]string
	snapshot map[string]string // of the table: their sizes by their names
	others   []snapshot        // of other tables of the keyspace, of which there may be no more
	hints    bool              // it has writes for nodes that were away
	local    bool              // its files are those of this machine
	err      error
}

// A snapshot is one of a table or of a materialised view.
type snapshot struct{ name, table, size string }

// nodes asks all nodes. Of one that cannot be asked there is the error.
func (s *Source) nodes(ctx context.Context) (all []node) {
	own := make(map[string]bool)
	addresses, _ := net.InterfaceAddrs() // if they are not known, no node is local
	for _, a := range addresses {
		if ip, _, err := net.ParseCIDR(a.String()); err == nil {
			own[ip.String()] = true
		}
	}
	for _, h := range s.session.GetHosts() {
		n := node{name: h.ConnectAddress().String(), settings: make(map[string]string)}
		n.local = own[n.name] || h.ConnectAddress().IsLoopback()
		i := s.session.Query("SELECT name, value FROM system_views.settings").Consistency(gocql.One).SetHostID(h.HostID()).IterContext(ctx)
		for name, value := "", ""; i.Scan(&name, &value); name, value = "", "" {
			n.settings[name] = value
		}
		n.err = s.failed(ctx, "ask "+n.name+" for its settings", i.Close())
		n.snapshot = make(map[string]string)
		i = s.session.Query("SELECT name, table_name, size_on_disk FROM system_views.snapshots WHERE keyspace_name = ? ALLOW FILTERING", s.keyspace).
			Consistency(gocql.One).SetHostID(h.HostID()).IterContext(ctx)
		for name, table, bytes := "", "", int64(0); i.Scan(&name, &table, &bytes); {
			if size := fmt.Sprintf(" (%d bytes)", bytes); table == s.table {
				n.snapshot[name] = size
			} else {
				n.others = append(n.others, snapshot{name, table, size})
			}
		}
		_ = i.Close() // versions before 4.1 do not say
		i = s.session.Query("SELECT host_id FROM system_views.pending_hints").Consistency(gocql.One).SetHostID(h.HostID()).IterContext(ctx)
		n.hints = i.NumRows() > 0
		_ = i.Close() // versions before 4.1 do not say
		all = append(all, n)
	}
	return all
}

// beforeDrop says what to do, so that less remains.
func (s *Source) beforeDrop(ctx context.Context, l *layout) (todo []string, err error) {
	for _, view := range l.views {
		todo = append(todo, fmt.Sprintf("The materialised view %s must be dropped first: it has rows of the table, and Cassandra drops no table with views.", view))
	}
	for _, index := range l.indexes {
		todo = append(todo, fmt.Sprintf("The index %s has values of the table. It goes with the table.", index))
	}
	snapshots, backups := "", ""
	for _, n := range s.nodes(ctx) {
		if n.err != nil && ctx.Err() != nil {
			return nil, n.err
		}
		if n.err != nil || n.settings["auto_snapshot"] == "true" {
			snapshots += " " + n.name
		}
		if n.settings["incremental_backups"] == "true" {
			backups += " " + n.name
		}
	}
	if snapshots != "" && !s.without(ctx, l, "allow_auto_snapshot") {
		todo = append(todo, fmt.Sprintf("Nodes keep a snapshot of a table that is dropped (auto_snapshot):%s. To prevent that: %s.", snapshots, s.noSnapshots(l)))
	}
	if backups != "" && !s.without(ctx, l, "incremental_backups") {
		todo = append(todo, fmt.Sprintf("Nodes keep old data files (incremental_backups):%s. To prevent that: %s.", backups, s.set(l, "incremental_backups = false", "run 'nodetool disablebackup' there")))
	}
	if l.cdc {
		todo = append(todo, fmt.Sprintf("Changes of the table are kept for others to read: ALTER TABLE %s WITH cdc = false.", l.table))
	}
	return todo, nil
}

// without reports whether the table and all its views were altered to have no use of what an option of Cassandra 5 allows.
// Earlier ones have no such option.
func (s *Source) without(ctx context.Context, l *layout, option string) bool {
	found, allowed := 0, false
	for _, of := range []string{"tables WHERE keyspace_name = ? AND table_name = ?", "views WHERE keyspace_name = ? AND base_table_name = ? ALLOW FILTERING"} {
		i := s.about("SELECT "+option+" FROM system_schema."+of, s.keyspace, s.table).IterContext(ctx)
		for on := (*bool)(nil); i.Scan(&on); on = nil {
			found, allowed = found+1, allowed || on == nil || *on
		}
		if i.Close() != nil {
			return false
		}
	}
	return found == 1+len(l.views) && !allowed
}

// noSnapshots says how a table goes without a snapshot of it.
func (s *Source) noSnapshots(l *layout) string {
	return s.set(l, "allow_auto_snapshot = false", "set auto_snapshot to false in the cassandra.yaml of these nodes and start them again, or run 'nodetool clearsnapshot' there afterwards")
}

// set says how a table gets an option of Cassandra 5, and what to do on the nodes of an earlier one in its place.
func (s *Source) set(l *layout, option, instead string) string {
	if cassandra.OlderThan(s.session, 5, 0) != "" {
		return instead
	}
	return s.alter(l, option)
}

// alter returns the statements that change an option of the table and of its views.
func (s *Source) alter(l *layout, option string) string {
	stmts := []string{"ALTER TABLE " + l.table + " WITH " + option}
	for _, view := range l.views {
		stmts = append(stmts, "ALTER MATERIALIZED VIEW "+quoted(s.keyspace)+"."+quoted(view)+" WITH "+option)
	}
	return strings.Join(stmts, "; ")
}

// Drop implements [migrate.Source]. It drops no table that was made in place of the one that was described, and none with views.
func (s *Source) Drop(ctx context.Context) error {
	before := s.layout.Load()
	l, err := s.read(ctx)
	switch {
	case errors.Is(err, driver.ErrNoFamily):
		return nil // it is gone
	case err != nil:
		return err
	case before != nil && l.id != before.id:
		return s.changed()
	case len(l.views) > 0:
		return fmt.Errorf("cqlsource: the table %s has materialised views, which have its values, too: drop %s first; a node with auto_snapshot keeps a snapshot of what is dropped; to prevent that: %s",
			l.table, strings.Join(l.views, ", "), s.noSnapshots(l))
	}
	return s.failed(ctx, "drop", s.session.Query("DROP TABLE IF EXISTS "+l.table).ExecContext(ctx))
}

const (
	clearSnapshots = "run 'nodetool listsnapshots' there, and 'nodetool clearsnapshot -t NAME -- %s'"
	dropFirst      = "drop the table; the node deletes these files soon after that"
	deleteFiles    = "delete the folder, if the table is dropped"
	flush          = "run 'nodetool flush' there, and wait until the node has deleted the segments, or 'nodetool drain' and start it again"
)

// Remains implements [migrate.Source]. Files are seen on nodes that run on this machine, as far as this user may read them.
func (s *Source) Remains(ctx context.Context) (all []migrate.Remain, err error) {
	tables, views, err := s.tables(ctx)
	if err != nil {
		return nil, err
	}
	for _, n := range s.nodes(ctx) {
		switch {
		case n.err != nil && ctx.Err() != nil:
			return nil, n.err
		case n.err != nil:
			all = append(all, migrate.Remain{What: "files of a node that could not be asked", Where: n.name, Advice: "start it, or let the role read system_views, and ask again"})
			continue
		}
		for _, dir := range strings.Split(strings.Trim(n.settings["data_file_directories"], "[]"), ", ") {
			all = append(all, s.ofTable(n, dir)...)
		}
		for _, name := range sortedKeys(n.snapshot) {
			all = append(all, migrate.Remain{
				What: "snapshot" + n.snapshot[name], Where: n.name + ":" + name, Seen: true,
				Advice: fmt.Sprintf("run 'nodetool clearsnapshot -t %s -- %s' there", name, s.keyspace),
			})
		}
		all = append(all, n.ofDropped(s.keyspace, append(tables, views...))...)
		all = append(all, n.shared("commit log, which has the last writes of all tables", "commitlog_directory", flush),
			n.shared("caches, which may have keys of rows", "saved_caches_directory", "run 'nodetool invalidatekeycache' and 'nodetool invalidaterowcache' there; the files are written again after some hours"))
		if n.hints {
			all = append(all, n.shared("writes for nodes that were away", "hints_directory", "wait until these nodes have them, or run 'nodetool truncatehints' there"))
		}
		if n.settings["cdc_enabled"] == "true" {
			all = append(all, n.shared("changes that are kept for others to read", "cdc_raw_directory", "let their reader take them, or delete the files"))
		}
	}
	return append(all, migrate.Remain{What: "backups", Where: "wherever you keep copies of data files, or exports", Advice: "delete those that have the table, or keep them as you keep its values"}), nil
}

// ofTable returns what a folder of data files has of the table, and of tables of the same name that were dropped.
func (s *Source) ofTable(n node, dir string) (all []migrate.Remain) {
	where := filepath.Join(dir, s.keyspace, s.table+"-*")
	unseen := []migrate.Remain{{
		What: "data files, snapshots and backups of the table", Where: n.name + ":" + where,
		Advice: "look there when the table is dropped; " + fmt.Sprintf(clearSnapshots, s.keyspace),
	}}
	if !n.local {
		return unseen
	}
	if _, err := fs.Stat(os.DirFS(dir), "."); err != nil {
		return unseen // it runs in a container, or belongs to somebody else
	}
	folders, _ := filepath.Glob(where) // names of tables have no special characters
	for _, folder := range folders {
		found := make(map[string]*files)
		err := fs.WalkDir(os.DirFS(folder), ".", func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			of, parts := ".", strings.Split(path, "/")
			switch {
			case parts[0] == "snapshots" && len(parts) > 2:
				of = "snapshots/" + parts[1]
			case parts[0] == "backups":
				of = "backups"
			}
			if found[of] == nil {
				found[of] = new(files)
			}
			return found[of].add(d)
		})
		if err != nil {
			return unseen
		}
		for _, of := range sortedKeys(found) {
			r := migrate.Remain{What: "data files of the table", Where: filepath.Join(folder, of), Seen: true, Advice: dropFirst}
			switch {
			case strings.HasPrefix(of, "snapshots/") && n.snapshot[strings.TrimPrefix(of, "snapshots/")] != "":
				continue // the node says so
			case strings.HasPrefix(of, "snapshots/"):
				r.What, r.Advice = "snapshot", fmt.Sprintf(clearSnapshots, s.keyspace)
			case of == "backups":
				r.What, r.Advice = "incremental backup", deleteFiles
			}
			r.What += found[of].String()
			all = append(all, r)
		}
	}
	return all
}

// ofDropped returns the snapshots of what is no longer in the keyspace, since nobody knows any more what a view was of.
func (n *node) ofDropped(keyspace string, there []string) (all []migrate.Remain) {
	for _, of := range n.others {
		if slices.Contains(there, of.table) {
			continue
		}
		all = append(all, migrate.Remain{
			What: "snapshot of " + of.table + of.size + ", which is dropped, and has values of the table if it was a materialised view of it", Where: n.name + ":" + of.name,
			Advice: fmt.Sprintf("run 'nodetool clearsnapshot -t %s -- %s' there", of.name, keyspace),
		})
	}
	return all
}

// shared returns a place of a node that is not the table's alone.
func (n *node) shared(what, setting, advice string) migrate.Remain {
	r := migrate.Remain{What: what, Where: n.name + ":" + n.settings[setting], Advice: advice}
	if !n.local {
		return r
	}
	var have files
	if err := fs.WalkDir(os.DirFS(n.settings[setting]), ".", func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return have.add(d)
	}); err == nil {
		r.Where, r.What = n.settings[setting], what+have.String()
	}
	return r
}
