package hbasesource

import (
	"fmt"
	"strconv"
	"time"

	"github.com/rangecrypt/rangecrypt/store/hbase"
)

// A table is one with what its column families keep.
type table struct {
	*hbase.Foreign
	lives []life
}

// A life is how long a column family keeps cells.
type life struct {
	family string
	ttl    time.Duration // after their stamps, or 0 for ever
	kept   bool          // the newest version stays all the same
}

// forEver is the TTL of cells that do not expire, in seconds.
const forEver = 1<<31 - 1

func livesOf(of []hbase.ForeignFamily) []life {
	all := make([]life, len(of))
	for i, f := range of {
		all[i].family = f.Name
		if seconds, err := strconv.Atoi(f.Attributes["TTL"]); err == nil && seconds != forEver {
			all[i].ttl = time.Duration(seconds) * time.Second
		}
		versions, err := strconv.Atoi(f.Attributes["MIN_VERSIONS"])
		all[i].kept = err == nil && versions > 0
	}
	return all
}

// ends returns after which time the newest version of a cell is gone, or 0 for never.
func (l life) ends() time.Duration {
	if l.kept {
		return 0
	}
	return l.ttl
}

// life returns that of a column family, which is zero where there is none.
func (t *table) life(family string) life {
	for _, l := range t.lives {
		if l.family == family {
			return l
		}
	}
	return life{}
}

// expiry returns when a cell expires, if it does.
func (t *table) expiry(cell string, stamp int64) (time.Time, bool) {
	if ends := t.life(familyOf(cell)).ends(); ends > 0 {
		return time.UnixMilli(stamp).Add(ends), true
	}
	return time.Time{}, false
}

// life returns how long rows live, or 0 for ever, and in sentences what is to be known of that. A row lives as long as the last of its
// cells, so that one column family without an end is enough.
func (s *Source) life(t *table) (longest time.Duration, notes []string) {
	seen := make(map[string]bool)
	differ, lasting, first := false, false, time.Duration(0)
	for _, c := range s.mapping.Columns {
		l := t.life(c.family())
		if l.family == "" || seen[l.family] {
			continue
		}
		if l.kept && l.ttl > 0 {
			notes = append(notes, fmt.Sprintf("The column family %q keeps the newest versions beyond its TTL of %v (MIN_VERSIONS), so its cells do not expire here either.", l.family, l.ttl))
		}
		ends := l.ends()
		if len(seen) == 0 {
			first = ends
		}
		differ = differ || ends != first
		seen[l.family], lasting, longest = true, lasting || ends == 0, max(longest, ends)
	}
	if lasting {
		longest = 0
	}
	if differ {
		notes = append(notes, "Some column families keep cells longer than others: a row expires with the last of its cells, and stays if one of these does.")
	}
	return longest, append(notes,
		"HBase shows nobody a time to live that was given to a single cell (setTTL of the Java client): such a value goes from the source when its time is over, and stays in the table: delete it there yourself.")
}
