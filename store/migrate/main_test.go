package migrate

import (
	"os"
	"testing"

	"github.com/rangecrypt/rangecrypt/internal/sim"
)

func TestMain(m *testing.M) {
	sim.ManyAtOnce()
	os.Exit(m.Run())
}
