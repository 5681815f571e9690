package hbase

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/tsuna/gohbase/pb"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// A Foreign is a table that an application keeps itself, in any namespace of the cluster. Its rows have their cells as HBase has
// them: a qualifier has the column family and a colon before it, and a stamp is in milliseconds.
type Foreign struct {
	f        *family
	name     *pb.TableName
	families []ForeignFamily
}

// A ForeignFamily is a column family of such a table.
type ForeignFamily struct {
	Name       string
	Attributes map[string]string // as the shell of HBase names them, such as TTL, as far as they are set
}

// Foreign returns a table that this library did not make. One that does not exist is [driver.ErrNoFamily], and one that this library
// made [driver.ErrLayout]. The name is TABLE, or NAMESPACE:TABLE.
func (d *DB) Foreign(ctx context.Context, name string) (*Foreign, error) {
	namespace, table, ok := strings.Cut(name, ":")
	if !ok {
		namespace, table = "default", name
	}
	if namespace == "" || table == "" {
		return nil, fmt.Errorf("hbase: no table can have the name %q: it is TABLE or NAMESPACE:TABLE", name)
	}
	t := &Foreign{
		f:    &family{db: d, table: []byte(namespace + ":" + table), foreign: true, spec: driver.FamilySpec{Name: name, Layout: driver.LayoutOrdered}},
		name: &pb.TableName{Namespace: []byte(namespace), Qualifier: []byte(table)},
	}
	if namespace == "default" {
		t.f.table = []byte(table) // as the regions of such tables are named
	}
	ctx, m := d.atMaster(ctx)
	defer m.close()
	schema, err := m.describe(ctx, t.name)
	switch {
	case err != nil:
		return nil, d.fail(ctx, "open table "+name, err)
	case schema == nil:
		return nil, fmt.Errorf("hbase: %w: there is no table %s; one of a namespace is NAMESPACE:TABLE", driver.ErrNoFamily, name)
	case attribute(schema, layoutAttribute) != "":
		return nil, fmt.Errorf("hbase: %w: table %s is one of this library already", driver.ErrLayout, name)
	}
	for _, cf := range schema.GetColumnFamilies() {
		one := ForeignFamily{string(cf.GetName()), make(map[string]string)}
		for _, a := range cf.GetAttributes() {
			one.Attributes[string(a.GetFirst())] = string(a.GetSecond())
		}
		t.families = append(t.families, one)
	}
	return t, nil
}

// Families returns the column families of the table as they were when it was opened.
func (t *Foreign) Families() []ForeignFamily { return t.families }

// Scan yields the rows whose keys are at least start and below end, where nil is no bound, as [driver.Family.Scan] does.
func (t *Foreign) Scan(ctx context.Context, start, end []byte) iter.Seq2[driver.Row, error] {
	return t.f.scan(ctx, driver.Range{Start: start, End: end, Cells: driver.Slice{Stamps: true}})
}

// GetBatch returns the cells of rows, as [driver.Family.GetBatch] does.
func (t *Foreign) GetBatch(ctx context.Context, rows [][]byte) ([][]driver.Cell, error) {
	return t.f.GetBatch(ctx, rows, driver.Slice{Stamps: true})
}

// Drop removes the table. One that does not exist is no error.
func (t *Foreign) Drop(ctx context.Context) error {
	ctx, m := t.f.db.atMaster(ctx)
	defer m.close()
	return t.f.db.fail(ctx, "drop table "+t.f.spec.Name, m.drop(ctx, t.name))
}

// Now returns the time by the clocks of the servers, as far as they tell it: the time of this machine if it may be theirs, and
// otherwise the nearest one that may. The master knows the time of their latest reports, which come each three seconds.
func (d *DB) Now(ctx context.Context) (time.Time, error) {
	ctx, m := d.atMaster(ctx)
	defer m.close()
	var r pb.GetClusterStatusResponse
	if err := m.do(ctx, "GetClusterStatus", &pb.GetClusterStatusRequest{}, &r); err != nil {
		return time.Time{}, d.fail(ctx, "read the clocks of the servers", err)
	}
	var latest uint64 // milliseconds; servers whose clocks differ much are refused by the master
	for _, s := range r.GetClusterStatus().GetLiveServers() {
		latest = max(latest, s.GetServerLoad().GetReportEndTime())
	}
	now := time.Now().UnixMilli()
	if latest > 0 {
		now = min(max(now, int64(latest)), int64(latest)+5000)
	}
	return time.UnixMilli(now), nil
}

// SnapshotsOf returns the names of the snapshots of a table that the cluster has. There need not be the table any more.
func (d *DB) SnapshotsOf(ctx context.Context, table string) (names []string, err error) {
	ctx, m := d.atMaster(ctx)
	defer m.close()
	var r pb.GetCompletedSnapshotsResponse
	if err := m.do(ctx, "GetCompletedSnapshots", &pb.GetCompletedSnapshotsRequest{}, &r); err != nil {
		return nil, d.fail(ctx, "list snapshots", err)
	}
	for _, s := range r.GetSnapshots() {
		if strings.TrimPrefix(s.GetTable(), "default:") == strings.TrimPrefix(table, "default:") {
			names = append(names, s.GetName())
		}
	}
	return names, nil
}
