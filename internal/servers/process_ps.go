//go:build unix && !linux

package servers

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
)

const diesWithParent = false

// tie does nothing here: there is no way to have a process end with its parent. Servers of a
// test that was itself killed go on until "opebench servers down" is called on their folder.
func tie(*exec.Cmd) {}

// processInfo asks ps, which is in POSIX but for lstart, which macOS and the BSDs have.
func processInfo(pid int) (info, bool) {
	cmd := exec.Command("ps", "-o", "stat=,rss=,lstart=", "-p", strconv.Itoa(pid))
	cmd.Env = append(os.Environ(), "LC_ALL=C", "TZ=UTC")
	out, err := cmd.Output()
	f := strings.Fields(string(out))
	if err != nil || len(f) < 3 {
		return info{}, false
	}
	kib, _ := strconv.ParseInt(f[1], 10, 64)
	return info{
		began:  strings.Join(f[2:], " "),
		zombie: strings.HasPrefix(f[0], "Z"),
		ending: strings.Contains(f[0], "E"), // "is trying to exit"
		memory: kib << 10,
	}, true
}
