import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.security.JaasContext;

/**
 * Prints the names of all keys of Kafka's clients, a line each as `key NAME`. Then it reads each line of a file, whose
 * characters stand as numbers in base 16, as `sasl.jaas.config`, and prints `module CLASS NAME=VALUE …`, in base 16 too,
 * or `refused`.
 */
public class JavaReading {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true, "US-ASCII");
        TreeSet names = new TreeSet(AdminClientConfig.configNames());
        names.addAll(ConsumerConfig.configNames());
        names.addAll(ProducerConfig.configNames());
        for (Iterator each = names.iterator(); each.hasNext();) {
            out.println("key " + each.next());
        }
        BufferedReader lines = new BufferedReader(
            new InputStreamReader(new FileInputStream(arguments[0]), StandardCharsets.US_ASCII));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            out.println(read(text(line)));
        }
        lines.close();
    }

    private static String read(String text) {
        try {
            Map config = Collections.singletonMap("sasl.jaas.config", new Password(text));
            List modules = JaasContext.loadClientContext(config).configurationEntries();
            AppConfigurationEntry module = (AppConfigurationEntry) modules.get(0);
            StringBuilder said = new StringBuilder("module " + hex(module.getLoginModuleName()));
            TreeMap options = new TreeMap(module.getOptions());
            for (Iterator each = options.entrySet().iterator(); each.hasNext();) {
                Map.Entry option = (Map.Entry) each.next();
                said.append(" " + hex((String) option.getKey()) + "=" + hex((String) option.getValue()));
            }
            return said.toString();
        } catch (Exception refused) {
            return "refused";
        }
    }

    private static String text(String hex) {
        StringBuilder text = new StringBuilder();
        for (int at = 0; at + 4 <= hex.length(); at += 4) {
            text.append((char) Integer.parseInt(hex.substring(at, at + 4), 16));
        }
        return text.toString();
    }

    private static String hex(String text) {
        StringBuilder hex = new StringBuilder();
        for (int at = 0; at < text.length(); at++) {
            hex.append(String.format("%04x", new Object[] {Integer.valueOf(text.charAt(at))}));
        }
        return hex.toString();
    }
}
