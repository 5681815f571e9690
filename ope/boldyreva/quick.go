package boldyreva

import "math/bits"

// Most samples of the histogram branch are the first proposal, accepted by a bound. These need no more than a look at two
// tables, so they have a function of their own, which keeps nothing in memory. What it cannot decide is left to histogram.

// A quickRow is what [quickly] needs of the tables for a row of quick.
type quickRow struct {
	column   [64]uint32         // of the envelope
	bound    [64 * parts]uint32 // of quickParts; 0 for the tail, which has none
	fraction uint64
}

const parts = 8 // of a block, which have bounds of their own

// A quickClass is what [quickly] needs to know of V by its bit length: the row, and by how much blockWidth shifts V and the
// root.
type quickClass struct {
	row                *quickRow // nil: V is too small
	left, right        uint8
	rootLeft, rootDown uint8
}

// quickClasses has the classes by the bit length of V less 1.
var quickClasses = func() (by [64]quickClass) {
	var rows [len(quick)]quickRow
	for i := range rows {
		env := &envelopes[min(i, 4)]
		rows[i].column, rows[i].fraction = env.column, uint64(env.fraction)
		copy(rows[i].bound[:], quickParts[i][:])
	}
	for n := uint8(8); int(n) <= len(by); n++ {
		c := &by[n-1]
		c.row = &rows[classes[n]]
		up, down := uint8(0), 21-uint8(c.row.fraction)
		if n < 9 {
			c.left = 2
		} else {
			c.right = (n - 9) &^ 1
			up = c.right/2 + 1
		}
		c.rootLeft, c.rootDown = up-min(up, down), down-min(up, down)
	}
	return by
}()

// quickly returns what split does, or false, for a node of the histogram branch and the first block of its coins.
func quickly(k uint, last, a, u uint64) (lower uint64, ok bool) {
	// See variance; nothing here exceeds a word.
	if last >= 1<<63 || k < 64 && last>>((k-1)&63) != 0 { // the gaps are sampled
		return 0, false
	}
	v := last + 2
	if (last+1)>>(k/2&63) != 0 { // M^2 is not below 2^k
		v1, v0 := variance(k, last)
		if v1 != 0 {
			return 0, false
		}
		v = v0
	}
	c := &quickClasses[(bits.Len64(v)-1)&63]
	row := c.row
	if row == nil {
		return 0, false
	}
	// See blockWidth.
	width := uint64(roots[v<<(c.left&63)>>(c.right&63)-256])<<(c.rootLeft&63)>>(c.rootDown&63) + 1
	// See histogram.
	r, low := bits.Mul64(u, width)
	j := a >> 58
	column := uint64(row.column[j])
	own := (a>>32&(1<<25-1) - column>>6) >> 63
	j = column&63 ^ (column&63^j)&-own
	e := (j*width + r) >> (row.fraction & 63)
	side := a >> 57 & 1
	return last/2 + 1 + (e ^ -side), low >= width && uint32(a) < row.bound[(j*parts+u/(1<<64/parts))&(64*parts-1)]
}

// countQuickly is [quickly] for a node that popcount splits. The words b1 and b2 are those of the second block, and do not
// matter where there are at most 64 points.
func countQuickly(k uint, last, v, b, b1, b2 uint64) (lower uint64, ok bool) {
	if k <= 64 && last>>((k-1)&63) != 0 {
		return 0, false // the gaps are sampled
	}
	m := last + 1
	odd, half := m&1, (m+1)/2
	x := uint64(bits.OnesCount64(b>>(64-min(m, 64))) + bits.OnesCount64(b1>>(128-min(max(m, 64), 128))) + bits.OnesCount64(b2>>(192-max(m, 128))))
	// See popcount. The distance h is found without a branch.
	below := uint64(int64(x-half) >> 63)
	h := (x - half) ^ below + (odd^1)&below
	c1 := ^uint64(0)
	if k <= 64 {
		c1 = 1<<((k-1)&63) - half + 1
	}
	hi, _ := bits.Mul64(^v, c1)
	return x, hi >= h*(h+odd)
}
