package cmd

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/schemafile"
)

// The page names all that a schema file may say: each name that an error lists is in it.
func TestSchemaFilesAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(repository, "docs", "operations.md"))
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), "\n### Schema files\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	const wrong = "{name: x, type: x, encryption: x, scheme: x, confidentiality: x, shared-with: {x: x}, x: x}"
	_, err = schemafile.Parse("f", []byte("layout: x\nx: x\nkey: ["+wrong+"]\ncolumns: ["+wrong+"]\n"))
	require.Error(t, err)
	lists := regexp.MustCompile(`: there is (.*)`).FindAllStringSubmatch(err.Error(), -1)
	require.GreaterOrEqual(t, len(lists), 8, err)
	for _, list := range lists {
		for name := range strings.SplitSeq(list[1], ", ") {
			require.Regexp(t, "[`{ ]"+regexp.QuoteMeta(name)+"[`:]", section, "%s: %v", name, err)
		}
	}
}
