import java.io.FileInputStream;
import java.time.Duration;
import java.util.Collection;
import java.util.Iterator;
import java.util.Properties;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/**
 * A consumer in a group that subscribes by a pattern, which Kafka's VerifiableConsumer cannot, and commits after each
 * poll.
 *
 * Janino, a compiler among Spark's jars, compiles it at each run; its support for generics and lambdas is poor. The
 * program prints each event as a line of fields separated by tabs.
 */
public class JavaPatternReader {
    private static volatile boolean ends = false;

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        FileInputStream file = new FileInputStream(arguments[0]);
        settings.load(file);
        file.close();
        final Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread() {
            public void run() {
                ends = true;
                try {
                    main.join(20000);
                } catch (InterruptedException error) {
                    return;
                }
            }
        });
        KafkaConsumer consumer = new KafkaConsumer(settings);
        consumer.subscribe(Pattern.compile(arguments[1]), new ConsumerRebalanceListener() {
            public void onPartitionsAssigned(Collection partitions) {
                tell("assigned", partitions);
            }

            public void onPartitionsRevoked(Collection partitions) {
                tell("revoked", partitions);
            }

            public void onPartitionsLost(Collection partitions) {
                tell("revoked", partitions);
            }
        });
        while (!ends) {
            ConsumerRecords records = consumer.poll(Duration.ofMillis(100L));
            for (Iterator each = records.iterator(); each.hasNext();) {
                ConsumerRecord record = (ConsumerRecord) each.next();
                say("record", record.topic() + "\t" + record.partition() + "\t" + record.offset() + "\t" + record.value());
            }
            if (records.count() > 0) {
                commit(consumer);
            }
        }
        consumer.close();
    }

    private static void commit(KafkaConsumer consumer) {
        try {
            consumer.commitSync();
        } catch (KafkaException error) {
            say("noted", String.valueOf(error).replace('\t', ' ').replace('\n', ' '));
            return;
        }
        for (Iterator each = consumer.assignment().iterator(); each.hasNext();) {
            TopicPartition part = (TopicPartition) each.next();
            say("committed", part.topic() + "\t" + part.partition() + "\t" + consumer.position(part));
        }
    }

    private static void tell(String what, Collection partitions) {
        StringBuilder spots = new StringBuilder();
        for (Iterator each = partitions.iterator(); each.hasNext();) {
            TopicPartition part = (TopicPartition) each.next();
            spots.append(spots.length() > 0 ? "\t" : "").append(part.topic()).append("\t").append(part.partition());
        }
        say(what, spots.toString());
    }

    private static void say(String what, String fields) {
        System.out.println(what + "\t" + System.currentTimeMillis() + "\t" + fields);
        System.out.flush();
    }
}
