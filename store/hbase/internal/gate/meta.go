package gate

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/tsuna/gohbase/filter"
	"github.com/tsuna/gohbase/pb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// Unserved says why nobody serves a table, or a region of it, by their rows of hbase:meta; "" where these do not tell.
func Unserved(table string, rows []driver.Row) string {
	for _, row := range rows {
		// A message of one field: enabled is 0, disabled 1, disabling 2.
		if v := of(row.Cells, "table:state"); len(v) == 2 && v[0] == 8 && (v[1] == 1 || v[1] == 2) {
			return fmt.Sprintf("its table %s is disabled: enable it in the shell of HBase", table)
		}
		// One that was split or merged has others in its place.
		if state := string(of(row.Cells, "info:state")); !slices.Contains([]string{"", "OPEN", "SPLIT", "MERGED"}, state) {
			name := strings.Split(string(row.Key), ".") // its key may have points, too
			return fmt.Sprintf("a region of its table %s is in the state %s: if it stays so, assign it in the shell of HBase: assign '%s'", table, state, name[max(0, len(name)-2)])
		}
	}
	return ""
}

// of returns the value of a cell, or nil.
func of(row []driver.Cell, name string) []byte {
	for _, c := range row {
		if string(c.Qualifier) == name {
			return c.Value
		}
	}
	return nil
}

const (
	meta          = "hbase:meta,,1" // the region with the rows of all regions
	longestLookup = 64 << 10        // bytes of a request that looks for a row, with room to spare
)

// pastSplit returns a request of the client that looks for the region of a row such that it does not find one that was split,
// and nil for all other requests.
//
// The client takes the first row of hbase:meta at or below the one it looks for. A region that was split keeps its row for minutes. Those
// that it was split into have rows above it, but one of these may be merged with the region below, whose row is below both. Then the client
// would find what was split, and look again, until the master has removed the row.
func pastSplit(request []byte) []byte {
	if len(request) < 4 || len(request) > longestLookup || int(binary.BigEndian.Uint32(request)) != len(request)-4 || !bytes.Contains(request, []byte(meta)) {
		return nil
	}
	head, n := protowire.ConsumeBytes(request[4:])
	if n < 0 {
		return nil
	}
	body, m := protowire.ConsumeBytes(request[4+n:])
	var header pb.RequestHeader
	var scan pb.ScanRequest
	if m < 0 || 4+n+m != len(request) || proto.Unmarshal(head, &header) != nil || header.GetMethodName() != "Scan" || proto.Unmarshal(body, &scan) != nil ||
		string(scan.GetRegion().GetValue()) != meta || !scan.GetScan().GetReversed() || scan.GetScan().GetFilter() != nil {
		return nil
	}
	// Only what was split has this column, which is never empty. The filter lets rows without it through.
	split := filter.NewSingleColumnValueFilter([]byte("info"), []byte("splitA"), filter.Equal, filter.NewBinaryComparator(filter.NewByteArrayComparable(nil)), false, true)
	var err error
	if scan.Scan.Filter, err = split.ConstructPBFilter(); err != nil {
		return nil
	}
	if body, err = proto.Marshal(&scan); err != nil {
		return nil
	}
	changed := protowire.AppendBytes(protowire.AppendBytes(make([]byte, 4), head), body)
	binary.BigEndian.PutUint32(changed, uint32(len(changed)-4))
	return changed
}
