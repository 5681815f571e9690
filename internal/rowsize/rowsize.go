// Package rowsize says how large rows are, so that few large ones are worked on together.
package rowsize

// Enough is from how many bytes on rows are worked on although they are few: several batches are under way together. A cell may have
// twice as many.
const Enough = 4 << 20

// Of returns how many bytes the texts and byte strings of a row have.
func Of(row map[string]any) (bytes int) {
	for _, v := range row {
		switch v := v.(type) {
		case string:
			bytes += len(v)
		case []byte:
			bytes += len(v)
		}
	}
	return bytes
}
