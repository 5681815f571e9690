package bare

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/tsuna/gohbase"
	"github.com/tsuna/gohbase/hrpc"
)

type hbaseStore struct {
	client gohbase.Client
	admin  gohbase.AdminClient
	table  []byte
}

const hbaseFamily = "c"

// OpenHBase keeps rows in a table of the default namespace, since the client makes tables in no other,
// and drops it in the end.
func OpenHBase(ctx context.Context, quorum, table string) (Store, error) {
	// Rows that are sent by several goroutines go together, and wait for no others: by default they
	// would wait for 20 ms.
	client := gohbase.NewClient(quorum, gohbase.RpcQueueSize(256), gohbase.FlushInterval(0))
	s := &hbaseStore{client, gohbase.NewAdminClient(quorum), []byte(table)}
	if err := s.admin.CreateTable(hrpc.NewCreateTable(ctx, s.table, map[string]map[string]string{hbaseFamily: {"VERSIONS": "1"}})); err != nil {
		client.Close()
		return nil, fmt.Errorf("bare hbase: %w", err)
	}
	return s, nil
}

func (s *hbaseStore) Put(ctx context.Context, rows []Row) error {
	puts := make([]hrpc.Call, len(rows))
	for i, r := range rows {
		put, err := hrpc.NewPut(ctx, s.table, r.Key, map[string]map[string][]byte{hbaseFamily: {"": r.Value}})
		if err != nil {
			return err
		}
		if len(rows) == 1 {
			_, err = s.client.Put(put)
			return err
		}
		puts[i] = put
	}
	results, ok := s.client.SendBatch(ctx, puts)
	if ok {
		return nil
	}
	var err error
	for _, r := range results {
		if r.Error != nil {
			err = r.Error
		}
	}
	return err
}

func (s *hbaseStore) Scan(ctx context.Context, from, to []byte) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		scan, err := hrpc.NewScanRange(ctx, s.table, from, to, hrpc.NumberOfRows(1000))
		if err != nil {
			yield(Row{}, err)
			return
		}
		scanner := s.client.Scan(scan)
		for {
			result, err := scanner.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(Row{}, err)
				return
			}
			for _, c := range result.Cells {
				if !yield(Row{c.Row, c.Value}, nil) {
					_ = scanner.Close()
					return
				}
			}
		}
	}
}

func (s *hbaseStore) Close(ctx context.Context) error {
	defer s.client.Close()
	err := s.admin.DisableTable(hrpc.NewDisableTable(ctx, s.table))
	if err == nil {
		err = s.admin.DeleteTable(hrpc.NewDeleteTable(ctx, s.table))
	}
	return err
}
