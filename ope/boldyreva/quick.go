package boldyreva

import "math/bits"

// Most samples of the histogram branch are the first proposal, accepted by a bound. These need no more than a look at two
// tables, so they have a function of their own, which keeps nothing in memory. What it cannot decide is left to histogram.

// A quickRow is what [quickly] needs of the tables for a row of quick.
type quickRow struct {
	column   [64]uint32         // of the envelope
	bound    [64 * parts]uint32 // of quickParts; 0 for the tail, which has none
	fraction uint
}

const parts = 8 // of a block, which have bounds of their own

// quickRows gives, by the bit length of V less 1, the row; there is none where V is small.
var quickRows = func() (by [64]*quickRow) {
	var rows [len(quick)]quickRow
	for i := range rows {
		env := &envelopes[min(i, 4)]
		rows[i].column, rows[i].fraction = env.column, env.fraction
		copy(rows[i].bound[:], quickParts[i][:])
	}
	for n := 9; n <= len(by); n++ {
		by[n-1] = &rows[classes[n]]
	}
	return by
}()

// quickly returns what split does, or false, for a node of the histogram branch and the first block of its coins.
func quickly(k uint, last, a, u uint64) (lower uint64, ok bool) {
	// See variance; nothing here exceeds a word.
	if last >= 1<<63 {
		return 0, false
	}
	m := last + 1
	sqHi, sqLo := bits.Mul64(m, m)
	var sq uint64
	switch {
	case k < 64:
		if last>>((k-1)&63) != 0 {
			return 0, false // the gaps are sampled
		}
		sq = sqHi<<((64-k)&63) | sqLo>>(k&63)
	case k < 128:
		sq = sqHi >> ((k - 64) & 63)
	}
	v := m + 1 - sq
	n := uint(bits.Len64(v))
	row := quickRows[(n-1)&63]
	if row == nil {
		return 0, false
	}
	// See blockWidth.
	s := (n - 9) &^ 1
	width := uint64(roots[v>>(s&63)-256])<<((s/2+1)&63)>>((21-row.fraction)&63) + 1
	// See histogram.
	r, low := bits.Mul64(u, width)
	j := a >> 58
	c := uint64(row.column[j])
	own := (a>>32&(1<<25-1) - c>>6) >> 63
	j = c&63 ^ (c&63^j)&-own
	e := (j*width + r) >> (row.fraction & 63)
	side := a >> 57 & 1
	return last/2 + 1 + (e ^ -side), low >= width && uint32(a) < row.bound[(j*parts+u/(1<<64/parts))&(64*parts-1)]
}
