package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
)

func TestCommandWords(t *testing.T) {
	for command, want := range map[string][]string{
		`keeper`:                                            {"keeper"},
		`  keeper` + "\t" + `a   b `:                        {"keeper", "a", "b"},
		`'/opt/my keeper/bin' key`:                          {"/opt/my keeper/bin", "key"},
		`"C:\Program Files\k.exe" /x`:                       {`C:\Program Files\k.exe`, "/x"},
		`keeper it"'"s 'say "hi"' a'b'c`:                    {"keeper", "it's", `say "hi"`, "abc"},
		`keeper '' ""`:                                      {"keeper", "", ""},
		`keeper '$HOME' "a|b" x~ 'https://k/?a&b' #1 *.key`: {"keeper", "$HOME", "a|b", "x~", "https://k/?a&b", "#1", "*.key"},
		`keeper arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab`: {"keeper",
			"arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"},
		"wrap":         {"wrap"},
		"kéeper \xff ": {"kéeper", "\xff"},
	} {
		words, err := commandWords("--key", command)
		require.NoError(t, err, command)
		require.Equal(t, want, words, command)
		require.NoError(t, CheckKey("--key", "exec:"+command))
	}
	key := strings.Repeat("0f", 32)
	for command, want := range map[string]string{
		"":                      "needs a program",
		" \t ":                  "needs a program",
		`''`:                    "needs a program",
		`keeper 'a`:             "has a ' in its command that is not closed",
		`keeper it's`:           "has a ' in its command that is not closed",
		`keeper "a'`:            `has a " in its command that is not closed`,
		"keeper\nrm":            "has a line feed or control character in it",
		"keeper 'a\x00'":        "has a line feed or control character in it",
		"keeper a; rm x":        "has ';' in its command, which no shell reads",
		"keeper <in":            "has '<' in its command",
		"keeper `id`":           "has '`' in its command",
		"(keeper)":              "has '(' in its command",
		"keeper &":              "has '&' in its command",
		"~root/keeper":          "has '~' in its command",
		"keeper wrap":           "ends with wrap, which is added",
		"keeper 'un'wrap":       "ends with unwrap, which is added",
		"keeper " + key:         "what looks like a key",
		"keeper --k=" + key:     "what looks like a key",
		"keeper '" + key + " '": "what looks like a key",
	} {
		_, err := commandWords("--to", command)
		require.ErrorIs(t, err, exit.ErrUsage, command)
		require.ErrorContains(t, err, "--to exec: ")
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), key)
		require.Equal(t, err, CheckKey("--to", "exec:"+command))
	}
}

// Every list of words can be written.
func TestAnyWordsCanBeQuoted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[ -~]{1,12}`)
		words := append([]string{word.Draw(t, "program")}, rapid.SliceOfN(word, 0, 4).Draw(t, "arguments")...)
		var quoted []string
		for _, w := range words {
			quoted = append(quoted, "'"+strings.ReplaceAll(w, "'", `'"'"'`)+"'")
		}
		got, err := commandWords("--key", strings.Join(append(quoted, "end"), " "))
		require.NoError(t, err)
		require.Equal(t, append(words, "end"), got)
	})
}
