import java.io.FileInputStream;
import java.time.Duration;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.mirror.MirrorClient;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;

/**
 * Asks Kafka's MirrorClient and RemoteClusterUtils all their questions, and prints an answer a line, as fields separated
 * by tabs. Arguments: a file of properties, an upstream alias, a group, and further aliases whose hops are asked.
 */
public class JavaMirrorClient {
    public static void main(String[] arguments) throws Exception {
        Properties file = new Properties();
        FileInputStream input = new FileInputStream(arguments[0]);
        file.load(input);
        input.close();
        Map properties = new HashMap();
        for (Iterator each = file.stringPropertyNames().iterator(); each.hasNext();) {
            String name = (String) each.next();
            properties.put(name, file.getProperty(name));
        }
        MirrorClient client = new MirrorClient(properties);
        say("hops", String.valueOf(client.replicationHops(arguments[1])));
        for (int each = 3; each < arguments.length; each++) {
            say("hops-" + arguments[each], String.valueOf(client.replicationHops(arguments[each])));
        }
        say("heartbeat-topics", String.valueOf(new TreeSet(client.heartbeatTopics())));
        say("checkpoint-topics", String.valueOf(new TreeSet(client.checkpointTopics())));
        say("upstream-clusters", String.valueOf(new TreeSet(client.upstreamClusters())));
        say("remote-topics", String.valueOf(new TreeSet(client.remoteTopics())));
        say("remote-topics-of", String.valueOf(new TreeSet(client.remoteTopics(arguments[1]))));
        offsets("offsets", client.remoteConsumerOffsets(arguments[2], arguments[1], Duration.ofSeconds(30L)));
        client.close();
        offsets("translated",
            RemoteClusterUtils.translateOffsets(properties, arguments[1], arguments[2], Duration.ofSeconds(30L)));
    }

    private static void offsets(String what, Map found) {
        Map sorted = new TreeMap();
        for (Iterator each = found.keySet().iterator(); each.hasNext();) {
            TopicPartition key = (TopicPartition) each.next();
            OffsetAndMetadata value = (OffsetAndMetadata) found.get(key);
            sorted.put(key.topic() + "-" + key.partition(), value.offset() + "/" + value.metadata());
        }
        say(what, String.valueOf(sorted));
    }

    private static void say(String what, String answer) {
        System.out.println(what + "\t" + answer);
    }
}
