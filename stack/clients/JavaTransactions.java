import java.io.FileInputStream;
import java.util.Properties;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.TimeoutException;

/**
 * A transactional producer as Kafka's documentation writes it: it commits, now and then aborts, and aborts what failed.
 *
 * It is compiled when it is run, by the compiler among Spark's jars, which knows neither generics nor lambdas well. Each
 * event is a line, fields separated by tabs.
 */
public class JavaTransactions {
    private static final Object LINES = new Object();
    private static volatile boolean ends = false;

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        FileInputStream file = new FileInputStream(arguments[0]);
        settings.load(file);
        file.close();
        String topic = arguments[1];
        String prefix = arguments[2];
        int records = Integer.parseInt(arguments[3]);
        int abortEvery = Integer.parseInt(arguments[4]);
        double rate = Double.parseDouble(arguments[5]);
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
        KafkaProducer producer = null;
        long number = 0;
        for (int transaction = 1; !ends; transaction++) {
            String outcome;
            try {
                if (producer == null) {
                    producer = new KafkaProducer(settings);
                    producer.initTransactions();
                }
                producer.beginTransaction();
                for (int i = 0; i < records; i++, number++) {
                    send(producer, topic, prefix + "-" + number, transaction);
                    Thread.sleep((long) (1000 / rate));
                }
                outcome = end(producer, abortEvery > 0 && transaction % abortEvery == 0);
            } catch (KafkaException error) {
                say("noted", transaction + "\t" + String.valueOf(error).replace('\t', ' ').replace('\n', ' '));
                outcome = giveUp(producer, transaction);
                if (outcome.equals("unknown")) {
                    producer = null;
                }
            }
            say("ended", transaction + "\t" + outcome);
        }
        if (producer != null) {
            producer.close();
        }
    }

    private static void send(KafkaProducer producer, final String topic, final String value, final int transaction) {
        say("sent", transaction + "\t" + value);
        producer.send(new ProducerRecord(topic, value), new Callback() {
            public void onCompletion(RecordMetadata where, Exception error) {
                if (error == null) {
                    say("acked", transaction + "\t" + value + "\t" + where.partition() + "\t" + where.offset());
                }
            }
        });
    }

    private static String end(KafkaProducer producer, boolean aborts) {
        if (aborts) {
            producer.flush();
            producer.abortTransaction();
            return "aborted";
        }
        while (true) {
            try {
                producer.commitTransaction();
                return "committed";
            } catch (TimeoutException error) {
                // It may have happened: only the same question may be asked again.
            }
        }
    }

    private static String giveUp(KafkaProducer producer, int transaction) {
        try {
            producer.abortTransaction();
            return "aborted";
        } catch (RuntimeException error) {
            say("fatal", transaction + "\t" + String.valueOf(error).replace('\t', ' ').replace('\n', ' '));
            producer.close();
            return "unknown";
        }
    }

    private static void say(String what, String fields) {
        synchronized (LINES) {
            System.out.println(what + "\t" + System.currentTimeMillis() + "\t" + fields);
            System.out.flush();
        }
    }
}
