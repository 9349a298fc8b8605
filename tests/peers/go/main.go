// Typical franz-go usage against the broker named on the command line: `peer HOST:PORT`.
// Prints one line per step, and exits with 1 at the first error.
package main

import (
	"context"
	"fmt"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var ctx, _ = context.WithTimeout(context.Background(), 60*time.Second)

func check(step string, err error) {
	if err != nil {
		fmt.Printf("%s: %v\n", step, err)
		os.Exit(1)
	}
}

func client(seed string, opts ...kgo.Opt) *kgo.Client {
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(seed))...)
	check("client", err)
	return cl
}

func create(cl *kgo.Client, topic string, partitions int32) {
	request := kmsg.NewPtrCreateTopicsRequest()
	wanted := kmsg.NewCreateTopicsRequestTopic()
	wanted.Topic, wanted.NumPartitions, wanted.ReplicationFactor = topic, partitions, -1
	request.Topics = append(request.Topics, wanted)
	response, err := request.RequestWith(ctx, cl)
	check("create", err)
	check("create", kerr.ErrorForCode(response.Topics[0].ErrorCode))
}

// Poll until the wanted number of values has arrived, and return them sorted.
func values(cl *kgo.Client, count int) string {
	var seen []string
	for len(seen) < count {
		fetches := cl.PollFetches(ctx)
		check("poll", fetches.Err0())
		for _, err := range fetches.Errors() {
			check("poll", err.Err)
		}
		fetches.EachRecord(func(record *kgo.Record) { seen = append(seen, string(record.Value)) })
	}
	sort.Strings(seen)
	return strings.Join(seen, " ")
}

func codecs(seed string, admin *kgo.Client) {
	create(admin, "codecs", 1)
	named := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	for name, codec := range named {
		cl := client(seed, kgo.ProducerBatchCompression(codec), kgo.DefaultProduceTopic("codecs"))
		check(name, cl.ProduceSync(ctx, kgo.StringRecord(name)).FirstErr())
		cl.Close()
	}
	cl := client(seed, kgo.ConsumeTopics("codecs"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	fmt.Println("codecs:", values(cl, len(named)))
	cl.Close()
}

// Two members, the first of which leaves: the second continues at the committed offsets.
func group(seed string, admin *kgo.Client, topic string, opts ...kgo.Opt) {
	create(admin, topic, 4)
	opts = append(opts, kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.AutoCommitInterval(100*time.Millisecond))
	write := func(value string) {
		for partition := int32(0); partition < 4; partition++ {
			record := &kgo.Record{Topic: topic, Partition: partition, Value: []byte(fmt.Sprint(value, partition))}
			check("produce", admin.ProduceSync(ctx, record).FirstErr())
		}
	}
	write("a")
	first := client(seed, opts...)
	fmt.Println(topic+":", values(first, 4))
	check("commit", first.CommitUncommittedOffsets(ctx))
	second := client(seed, opts...)
	go first.PollFetches(ctx) // it has to rejoin for the rebalance
	for {
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		second.PollFetches(short)
		cancel()
		if _, generation := second.GroupMetadata(); generation > 0 {
			break
		}
		check("join", ctx.Err())
	}
	first.Close()
	write("b")
	fmt.Println(topic+":", values(second, 4))
	second.Close()
}

func transactions(seed string, admin *kgo.Client) {
	create(admin, "transactions", 1)
	cl := client(seed, kgo.TransactionalID("t"), kgo.DefaultProduceTopic("transactions"))
	for number := 0; number < 4; number++ {
		check("begin", cl.BeginTransaction())
		check("produce", cl.ProduceSync(ctx, kgo.StringRecord(fmt.Sprint(number))).FirstErr())
		check("end", cl.EndTransaction(ctx, kgo.TransactionEndTry(number%2 == 0)))
	}
	cl.Close()
	check("produce", admin.ProduceSync(ctx, &kgo.Record{Topic: "transactions", Value: []byte("end")}).FirstErr())
	reader := client(seed, kgo.ConsumeTopics("transactions"), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	fmt.Println("transactions:", values(reader, 3))
	reader.Close()
}

func main() {
	seed := os.Args[1]
	admin := client(seed, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	codecs(seed, admin)
	group(seed, admin, "classic")
	group(seed, admin, "cooperative", kgo.Balancers(kgo.CooperativeStickyBalancer()))
	group(seed, admin, "consumer", kgo.ServerSideBalancer())
	transactions(seed, admin)
	admin.Close()
}
