package kerschbaum

// A relabelling makes room in an exhausted gap: the elements from to to (excluded) of the window
// that it was computed for, and the new one among them, get the places of elements.
type relabelling struct {
	from, to int
	elements []element // ascending, to-from+1 of them; that at gap-from is the new one, without its value
}

// advice is what relabel tells its caller to do.
type advice int

const (
	adviseCommit advice = iota // commit the relabelling
	adviseLower                // read on below the window, and ask again
	adviseUpper                // read on above the window, and ask again
	advisePass                 // write the whole index anew: no window of at most the given size makes room
)

// relabel makes room between window[gap-1] and window[gap], of which place said that there is
// none. The window is a run of neighbours of the index; the ends of the index are in it when it
// reaches them, which they do not move. At most most elements are moved; 0 is no limit. It is a
// function of labels and shapes alone, like place, and the elements keep their shapes, so that
// their neighbours stay such as place needs them.
//
// The published rules move everything, and have shapes anew: they want the whole index, both ends
// included.
func (r rules) relabel(window []element, gap int, most int) (relabelling, advice, error) {
	panic("not yet")
}
