package show

import (
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// An Environment is where and with what something was measured.
type Environment struct {
	Version string    `json:"version"` // of the module
	Go      string    `json:"go"`
	OS      string    `json:"os"`
	Arch    string    `json:"arch"`
	CPU     string    `json:"cpu,omitempty"`
	Cores   int       `json:"cores"`
	Time    time.Time `json:"time"`
}

// ThisEnvironment returns that of this process.
func ThisEnvironment(now time.Time) Environment {
	return Environment{
		Version: Version(), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
		CPU: cpu(), Cores: runtime.GOMAXPROCS(0), Time: now.UTC().Truncate(time.Second),
	}
}

// Version returns the version of the module that this program was built from, with the commit
// where the build recorded it.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	version, commit, changed := info.Main.Version, "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "+changes"
		}
	}
	if version == "" || version == "(devel)" {
		version = "(devel)"
		if commit != "" {
			version += " " + commit + changed
		}
	}
	return version
}

// cpu returns the name of the processor where Linux names it.
func cpu() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
