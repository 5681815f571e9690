package servers

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// state is what the file in a data folder says, by which another process finds the servers.
type state struct {
	Format int              `json:"format"`
	Server string           `json:"server"` // version
	Spec   spec             `json:"spec"`
	Nodes  map[string]entry `json:"processes"` // by the node's name, those that were started last
}

type entry struct {
	Process process `json:"process"`
	LogFrom int64   `json:"log_from"` // where in the log the process begins, in bytes
}

const (
	stateFormat = 1
	stateFile   = "servers.json"
)

func readState(dir string) (*state, error) {
	text, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		return nil, err
	}
	var s state
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("%s is damaged; if no server runs from this folder, remove the file: %w",
			filepath.Join(dir, stateFile), err)
	}
	if s.Format != stateFormat {
		return nil, fmt.Errorf("%s has format %d, this version knows %d; use the version that wrote it, "+
			"or another folder", filepath.Join(dir, stateFile), s.Format, stateFormat)
	}
	return &s, nil
}

// writeState replaces the file in one step, so that a reader never sees half of it.
func writeState(dir string, s *state) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	name := filepath.Join(dir, stateFile)
	if err := os.WriteFile(name+".new", append(text, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// running returns the processes that are alive. A nil state has none.
func (s *state) running() []process {
	var ps []process
	if s != nil {
		for _, e := range s.Nodes {
			if e.Process.alive() {
				ps = append(ps, e.Process)
			}
		}
	}
	return ps
}

// waitSettled waits for the end of those that were killed, so that who starts servers does not count them. A nil state has none.
func (s *state) waitSettled(ctx context.Context) error {
	if s == nil {
		return nil
	}
	for _, e := range s.Nodes {
		if err := e.Process.waitSettled(ctx); err != nil {
			return err
		}
	}
	return nil
}

// lockDir keeps two processes from starting or ending the servers of a folder at once.
func lockDir(ctx context.Context, dir string, logf func(string, ...any)) (unlock func(), err error) {
	return lockFile(ctx, filepath.Join(dir, "lock"), func() {
		logf("waiting for another process that starts or ends the servers in %s", dir)
	})
}
