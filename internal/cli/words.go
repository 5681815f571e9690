package cli

import (
	"strings"

	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
)

// forShells are characters that a shell acts on. No shell reads the command of a program, so that one
// which has them outside of quotes is not what somebody meant.
const forShells = "|&;<>()$`"

// commandWords divides the command of a key's program into words. Blanks and tabs divide them. What
// stands in '...' or in "..." is taken as it is, blanks and the other quotation mark too. A
// backslash is a character like others, as paths of Windows need it. The command is shown in no message, as
// it may hold what should not be in it.
func commandWords(flag, command string) ([]string, error) {
	var (
		words []string
		word  strings.Builder
		begun bool
		quote byte
	)
	end := func() {
		if begun {
			words = append(words, word.String())
			word.Reset()
		}
		begun = false
	}
	for _, r := range []byte(command) { // what divides is ASCII, and all else is taken as it is
		switch {
		case r < ' ' && r != '\t' || r == 0x7f:
			return nil, exit.Usagef("%s %s takes one line, and the command has a line feed or control character in it", flag, programKey)
		case r == quote:
			quote = 0
		case quote != 0:
			word.WriteByte(r)
		case r == '\'' || r == '"':
			quote, begun = r, true
		case r == ' ' || r == '\t':
			end()
		case strings.IndexByte(forShells, r) >= 0 || r == '~' && !begun:
			return nil, exit.Usagef("%s %s has %q in its command, which no shell reads: write a script and name that, or put it in quotes within the command to "+
				"have it taken as it is", flag, programKey, r)
		default:
			begun = true
			word.WriteByte(r)
		}
	}
	if quote != 0 {
		return nil, exit.Usagef("%s %s has a %c in its command that is not closed; a word with one in it is put in quotes of the other kind", flag, programKey, quote)
	}
	end()
	switch n := len(words); {
	case n == 0 || words[0] == "":
		return nil, exit.Usagef("%s %s needs a program, as in %[2]s/usr/local/bin/PROGRAM, or '%[2]sPROGRAM ARGUMENT'", flag, programKey)
	case n > 1 && (words[n-1] == "wrap" || words[n-1] == "unwrap"):
		return nil, exit.Usagef("%s %s ends with %s, which is added to the command: leave it out", flag, programKey, words[n-1])
	}
	for _, w := range words {
		_, value, _ := strings.Cut(w, "=")
		if keyLike.MatchString(w) || keyLike.MatchString(value) {
			return nil, exit.Usagef("%s %s has what looks like a key in its command: it is not shown here, but other users may have seen it; "+
				"have the program read it from a file, and rotate the key", flag, programKey)
		}
	}
	return words, nil
}
